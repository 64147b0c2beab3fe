"""Which algorithm C makes a convolution by: channel by channel, Winograd's, or patches."""

from __future__ import annotations

from typing import TypeAlias

from noeira import config
from noeira.codegen.c.isa import ISA
from noeira.codegen.kernels.depthwise import rule as by_channels
from noeira.codegen.kernels.depthwise.cut import STAGE as BY_CHANNELS
from noeira.codegen.kernels.depthwise.cut import DepthwiseCut
from noeira.codegen.kernels.depthwise.cut import applies as alone
from noeira.codegen.kernels.patches import rule as direct
from noeira.codegen.kernels.patches.patch_cut import PatchCut
from noeira.codegen.kernels.winograd import rule as winograd
from noeira.codegen.kernels.winograd.rule import WinogradCut
from noeira.codegen.kernels.winograd.work import applies, pays
from noeira.ir.geometry import Geometry
from noeira.ir.plan import Stage

ConvolutionCut: TypeAlias = PatchCut | DepthwiseCut | WinogradCut
# The stage that all cuts of Winograd's algorithm have.
WINOGRAD = "winograd"
# The sides of tiles of Winograd's algorithm, by what the setting says.
SIDES = {"auto": 4, "winograd2": 2}


def choose(
    role: str, geometry: Geometry, dtype: str, isa: ISA, headed: bool = False
) -> ConvolutionCut:
    """The cut for one of the three ops: by shape, and the setting NOEIRA_CONV. headed: whether
    element-wise ops before it make the image.
    """
    if alone(geometry):
        return by_channels.choose(role, geometry, dtype, isa, headed)
    side = SIDES.get(config.CONV.read())
    if side is not None and pays(geometry, dtype):
        return winograd.choose(role, geometry, dtype, isa, side)
    return direct.choose(role, geometry, dtype, isa, headed, apart=side is None)


def read(
    role: str,
    geometry: Geometry,
    dtype: str,
    isa: ISA,
    headed: bool,
    stages: tuple[Stage, ...],
) -> ConvolutionCut:
    """The cut that stages describe: their names say of which algorithm. Raises VerifyError if they
    do not fit the shape.
    """
    names = {stage.name for stage in stages}
    if alone(geometry) and BY_CHANNELS in names:
        return by_channels.read(role, geometry, dtype, isa, headed, stages)
    if applies(geometry, dtype) and WINOGRAD in names:
        return winograd.read(role, geometry, dtype, isa, stages)
    return direct.read(role, geometry, dtype, isa, headed, stages)
