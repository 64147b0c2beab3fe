"""How CUDA runs a kernel that says no more: in one launch, a thread for 16 bytes; and the launches
that many kernels have.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from noeira.codegen.anchor import Anchor, rows_dtype, rows_operand
from noeira.codegen.cuda.arch import WARP, Arch
from noeira.codegen.cuda.launches import within
from noeira.codegen.cuda.rows import CudaFunction, CudaRows
from noeira.codegen.cut import option, written
from noeira.codegen.rows import pieces_of, rows_and_columns
from noeira.errors import VerifyError
from noeira.ir.body import Body
from noeira.ir.plan import Choice, Stage
from noeira.ir.types import DTYPE_BYTES, TensorType, computed

# Threads of a block that does element-wise work or adds up.
BLOCK = 256
# Blocks for each multiprocessor: enough to fill it some times over, the rest is done in turns.
BLOCKS_EACH = 16


@dataclass(frozen=True)
class LaunchCut:
    """grid: blocks, which take turns if there is more to do; block: threads of each."""

    grid: int = option()
    block: int = option()


class CudaAnchor(Anchor):
    """One launch over the elements of the largest operand or result, as many at a time as an access
    has.
    """

    language = "cuda"
    Cut = LaunchCut

    def rule(self, body: Body, machine: Arch) -> Any:
        type = largest(body)
        if type.size == 1:
            return LaunchCut(1, 1)
        accesses = pieces_of(type.size, machine.lanes(computed(type.dtype) or type.dtype))
        return LaunchCut(blocks_for(accesses, BLOCK, machine), BLOCK)

    def check(self, body: Body, cut: Any, machine: Arch) -> None:
        """Templates of one element have no loop and no condition: there is one thread."""
        if self.Cut is LaunchCut and largest(body).size == 1 and cut != LaunchCut(1, 1):
            raise VerifyError(
                f"{body.stem}: grid and block must be 1 for one element, not {cut.grid} and "
                f"{cut.block}"
            )

    def stages(self, body: Body, cut: Any, machine: Arch) -> tuple[Stage, ...]:
        return (launched(body.stem, written(cut), self.shared(body, cut)),)

    def shared(self, body: Body, cut: Any) -> int:
        """Bytes of shared memory of a block."""
        return 0

    def view(self, body: Body, machine: Arch) -> Any:
        dtype, type = rows_dtype(body), rows_operand(body).type
        return CudaRows(dtype, machine.lanes(dtype), *rows_and_columns(type))

    def function(self, name: str, stage: Stage) -> CudaFunction:
        return CudaFunction(name, dict(stage.options))

    def read(self, body: Body, stages: tuple[Stage, ...], machine: Arch) -> Any:
        within(stages, machine)
        return super().read(body, stages, machine)

    def choice(self, body: Body, cut: Any, machine: Arch) -> Choice:
        found = super().choice(body, cut, machine)
        within(found.stages, machine)
        return found


def largest(body: Body) -> TensorType:
    """The type of the largest operand or result."""
    return max((v.type for v in (*body.outputs, *body.inputs)), key=lambda type: type.size)


def launched(name: str, options: tuple[tuple[str, Any], ...], shared: int = 0) -> Stage:
    """A stage of these options, with bytes of shared memory for a block."""
    return Stage(name, (*options, *((("shared", shared),) if shared else ())))


def blocks_for(items: int, block: int, machine: Arch) -> int:
    """Blocks for so many threads' work: one item each, or in turns if there are very many."""
    return max(1, min(pieces_of(items, block), BLOCKS_EACH * machine.multiprocessors))


def room_for_warps(block: int, dtype: str) -> int:
    """Bytes for an element of each warp of a block."""
    return block // WARP * DTYPE_BYTES[dtype]
