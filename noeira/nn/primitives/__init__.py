"""Primitives: layers that emit nodes themselves, one file a family."""

from noeira.nn.primitives import activations, bins, dropout, linear
from noeira.nn.primitives.activations import *
from noeira.nn.primitives.bins import *
from noeira.nn.primitives.dropout import *
from noeira.nn.primitives.linear import *

__all__: list[str] = []
__all__ += activations.__all__
__all__ += bins.__all__
__all__ += dropout.__all__
__all__ += linear.__all__
