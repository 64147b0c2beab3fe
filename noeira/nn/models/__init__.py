"""Models: networks that have names, and the blocks that they are built of."""

from noeira.nn.models import blocks, cifar, names, resnet
from noeira.nn.models.blocks import *
from noeira.nn.models.cifar import *
from noeira.nn.models.names import *
from noeira.nn.models.resnet import *

__all__: list[str] = []
__all__ += blocks.__all__
__all__ += cifar.__all__
__all__ += names.__all__
__all__ += resnet.__all__
