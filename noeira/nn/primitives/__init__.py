"""Primitives: layers that emit nodes themselves, one file a family."""

from noeira.nn.primitives import (
    activations,
    batch_norm,
    binary,
    bins,
    convolution,
    dropout,
    gates,
    linear,
    normalization,
    parts,
    pixels,
    pooling,
    reduce,
    shapes,
    softmax,
)
from noeira.nn.primitives.activations import *
from noeira.nn.primitives.batch_norm import *
from noeira.nn.primitives.binary import *
from noeira.nn.primitives.bins import *
from noeira.nn.primitives.convolution import *
from noeira.nn.primitives.dropout import *
from noeira.nn.primitives.gates import *
from noeira.nn.primitives.linear import *
from noeira.nn.primitives.normalization import *
from noeira.nn.primitives.parts import *
from noeira.nn.primitives.pixels import *
from noeira.nn.primitives.pooling import *
from noeira.nn.primitives.reduce import *
from noeira.nn.primitives.shapes import *
from noeira.nn.primitives.softmax import *

__all__: list[str] = []
__all__ += activations.__all__
__all__ += batch_norm.__all__
__all__ += binary.__all__
__all__ += bins.__all__
__all__ += convolution.__all__
__all__ += dropout.__all__
__all__ += gates.__all__
__all__ += linear.__all__
__all__ += normalization.__all__
__all__ += parts.__all__
__all__ += pixels.__all__
__all__ += pooling.__all__
__all__ += reduce.__all__
__all__ += shapes.__all__
__all__ += softmax.__all__
