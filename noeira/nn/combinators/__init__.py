"""Combinators: types that are made of module types."""

from noeira.nn.combinators import (
    aliases,
    checkpointed,
    fused,
    input_gradient,
    parallel,
    repeat,
    residual,
    sequential,
)
from noeira.nn.combinators.aliases import *
from noeira.nn.combinators.checkpointed import *
from noeira.nn.combinators.fused import *
from noeira.nn.combinators.input_gradient import *
from noeira.nn.combinators.parallel import *
from noeira.nn.combinators.repeat import *
from noeira.nn.combinators.residual import *
from noeira.nn.combinators.sequential import *

__all__: list[str] = []
__all__ += aliases.__all__
__all__ += checkpointed.__all__
__all__ += fused.__all__
__all__ += input_gradient.__all__
__all__ += parallel.__all__
__all__ += repeat.__all__
__all__ += residual.__all__
__all__ += sequential.__all__
