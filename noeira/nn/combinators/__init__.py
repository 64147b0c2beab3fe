"""Combinators: types that are made of module types."""

from noeira.nn.combinators import (
    aliases,
    checkpointed,
    declarations,
    fused,
    graph,
    input_gradient,
    parallel,
    repeat,
    residual,
    sequential,
    skip,
    wrappers,
)
from noeira.nn.combinators.aliases import *
from noeira.nn.combinators.checkpointed import *
from noeira.nn.combinators.declarations import *
from noeira.nn.combinators.fused import *
from noeira.nn.combinators.graph import *
from noeira.nn.combinators.input_gradient import *
from noeira.nn.combinators.parallel import *
from noeira.nn.combinators.repeat import *
from noeira.nn.combinators.residual import *
from noeira.nn.combinators.sequential import *
from noeira.nn.combinators.skip import *
from noeira.nn.combinators.wrappers import *

__all__: list[str] = []
__all__ += aliases.__all__
__all__ += checkpointed.__all__
__all__ += declarations.__all__
__all__ += fused.__all__
__all__ += graph.__all__
__all__ += input_gradient.__all__
__all__ += parallel.__all__
__all__ += repeat.__all__
__all__ += residual.__all__
__all__ += sequential.__all__
__all__ += skip.__all__
__all__ += wrappers.__all__
