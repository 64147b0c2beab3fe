"""How CUDA runs the kernel `pad`."""

from __future__ import annotations

from noeira.codegen.cuda.arch import Arch
from noeira.codegen.cuda.moving import MovingCut, Windowed
from noeira.errors import VerifyError
from noeira.ir.body import Body
from noeira.ir.types import DTYPE_BYTES


class Pad(Windowed):
    """Pieces of the result; a number other than 0 is written as a whole."""

    stem = "pad"

    def check(self, body: Body, cut: MovingCut, machine: Arch) -> None:
        super().check(body, cut, machine)
        size = DTYPE_BYTES[body.outputs[0].type.dtype]
        if body.parts[0].attrs.value and cut.access != size:  # type: ignore[attr-defined]
            raise VerifyError(f"pad: access must be {size}, what a number has, not {cut.access}")
