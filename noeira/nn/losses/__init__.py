"""Losses: modules of the network's outputs, then of targets, that give one number; one file a
family.
"""

from noeira.nn.losses import (
    base,
    binary,
    classes,
    critic,
    divergence,
    gaussian,
    regression,
    several,
    two_hot,
    weighted,
)
from noeira.nn.losses.base import *
from noeira.nn.losses.binary import *
from noeira.nn.losses.classes import *
from noeira.nn.losses.critic import *
from noeira.nn.losses.divergence import *
from noeira.nn.losses.gaussian import *
from noeira.nn.losses.regression import *
from noeira.nn.losses.several import *
from noeira.nn.losses.two_hot import *
from noeira.nn.losses.weighted import *

__all__: list[str] = []
__all__ += base.__all__
__all__ += binary.__all__
__all__ += classes.__all__
__all__ += critic.__all__
__all__ += divergence.__all__
__all__ += gaussian.__all__
__all__ += regression.__all__
__all__ += several.__all__
__all__ += two_hot.__all__
__all__ += weighted.__all__
