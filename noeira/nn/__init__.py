"""Networks as Python types: layers, combinators, losses, metrics, optimizers and initial values.

What is public is said by `__all__` of each file, and collected here.
"""

from typing import TYPE_CHECKING, Any

from noeira.habits import refuse_name as _refuse_name
from noeira.ir.graph import Value
from noeira.nn import (
    clipping,
    combinators,
    groups,
    losses,
    metrics,
    models,
    name_map,
    optimizer,
    primitives,
    schedule,
)
from noeira.nn.clipping import *
from noeira.nn.combinators import *
from noeira.nn.core import init as _init
from noeira.nn.core.extents import extent
from noeira.nn.core.init import *
from noeira.nn.core.module import Module
from noeira.nn.core.names import advice as _advice
from noeira.nn.core.owned import Parameter
from noeira.nn.core.parameters import Buffer, BufferInfo, Param, ParamInfo
from noeira.nn.core.scope import Scope
from noeira.nn.core.slots import axis, choice, derived, flag, module, modules, number, numbers, size
from noeira.nn.groups import *
from noeira.nn.losses import *
from noeira.nn.metrics import *
from noeira.nn.models import *
from noeira.nn.name_map import *
from noeira.nn.optimizer import *
from noeira.nn.primitives import *
from noeira.nn.schedule import *

# What a layer of one's own is written with.
__all__ = ["Buffer", "BufferInfo", "Module", "Param", "ParamInfo", "Parameter", "Scope", "Value"]
__all__ += clipping.__all__
__all__ += combinators.__all__
__all__ += _init.__all__
__all__ += groups.__all__
__all__ += ["axis", "choice", "derived", "extent", "flag", "module", "modules", "number", "size"]
__all__ += ["axis", "choice", "derived", "flag", "module", "modules", "number", "numbers", "size"]
__all__ += losses.__all__
__all__ += metrics.__all__
__all__ += models.__all__
__all__ += name_map.__all__
__all__ += optimizer.__all__
__all__ += primitives.__all__
__all__ += schedule.__all__

# Type checkers know the names above and nothing else.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        _refuse_name("noeira.nn", name, lambda: _advice(name, __all__))
