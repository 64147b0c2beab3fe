"""Primitives: layers that emit nodes themselves, one file a family."""

from noeira.nn.primitives import activations, batch_norm, bins, linear, normalization, softmax
from noeira.nn.primitives.activations import *
from noeira.nn.primitives.batch_norm import *
from noeira.nn.primitives.bins import *
from noeira.nn.primitives.linear import *
from noeira.nn.primitives.normalization import *
from noeira.nn.primitives.softmax import *

__all__: list[str] = []
__all__ += activations.__all__
__all__ += batch_norm.__all__
__all__ += bins.__all__
__all__ += linear.__all__
__all__ += normalization.__all__
__all__ += softmax.__all__
