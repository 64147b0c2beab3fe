"""How CUDA moves elements as they are: in accesses as large as what stays together."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from noeira.codegen.cuda import anchor as cuda
from noeira.codegen.cuda.arch import ACCESS_BYTES, Arch
from noeira.codegen.cut import option
from noeira.codegen.moved import AxisView, WindowView, axis_view, window_of
from noeira.codegen.rows import pieces_of
from noeira.errors import VerifyError
from noeira.ir.body import Body
from noeira.ir.types import DTYPE_BYTES, FLOATS


@dataclass(frozen=True)
class MovingCut(cuda.LaunchCut):
    """access: bytes that a thread moves at a time."""

    access: int = option(most=ACCESS_BYTES, power=True)

    def pieces(self, elements: int, size: int) -> int:
        """Accesses for so many elements of `size` bytes. Raises VerifyError if that is no whole
        number: none may move what does not stay together.
        """
        if elements * size % self.access:
            raise VerifyError(
                f"accesses of {self.access} bytes do not fit {elements} elements of {size} bytes: "
                "`moved_together` of the op must give a divisor of that number"
            )
        return elements * size // self.access

    def covering(self, elements: int, size: int) -> int:
        """Accesses that have room for so many elements."""
        return pieces_of(elements * size, self.access)


class Moving(cuda.CudaAnchor):
    """One launch with a thread for each access of the result."""

    Cut = MovingCut
    dtypes = frozenset(FLOATS)

    def most_access(self, body: Body) -> int:
        """Bytes of the largest access: elements that stay together."""
        node, moved = body.parts[0], body.outputs[0].type
        together = node.op.moved_together(node.attrs, *node.types)
        return math.gcd(ACCESS_BYTES, DTYPE_BYTES[moved.dtype] * together)

    def rule(self, body: Body, machine: Arch) -> MovingCut:
        access = self.most_access(body)
        accesses = body.outputs[0].type.nbytes // access
        block = cuda.BLOCK if accesses > 1 else 1
        return MovingCut(cuda.blocks_for(accesses, block, machine), block, access)

    def check(self, body: Body, cut: Any, machine: Arch) -> None:
        if cut.access > self.most_access(body):
            most = self.most_access(body)
            raise VerifyError(f"{body.stem}: access must be at most {most} for what stays together")


class Windowed(Moving):
    """A window of a larger tensor."""

    def view(self, body: Body, machine: Arch) -> WindowView:
        return window_of(body)


class Along(cuda.CudaAnchor):
    """Elements along an axis, a thread for each element of the result."""

    def rule(self, body: Body, machine: Arch) -> cuda.LaunchCut:
        size = body.outputs[0].type.size
        block = cuda.BLOCK if size > 1 else 1
        return cuda.LaunchCut(cuda.blocks_for(size, block, machine), block)

    def check(self, body: Body, cut: cuda.LaunchCut, machine: Arch) -> None:
        """Any launch will do: threads take elements in turn."""

    def view(self, body: Body, machine: Arch) -> AxisView:
        return axis_view(body)


class MovedAlong(Along):
    """The same, moved as they are."""

    dtypes = frozenset(FLOATS)
