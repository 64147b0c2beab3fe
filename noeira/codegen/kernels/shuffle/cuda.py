"""How CUDA sorts random keys: the launches of a bitonic sort, whose comparisons depend on nothing.

Sorted runs of 2, 4, 8, … elements, every other one downwards, are merged two at a time: of a run of
n elements, those n/2, n/4, …, 1 apart are compared and exchanged. Distances that fit in a block's
shared memory are done there in one launch, of the others some at a time in a thread's registers.
Source: Batcher, "Sorting networks and their applications", AFIPS 1968.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from noeira.codegen.cuda.anchor import CudaAnchor, launched
from noeira.codegen.cuda.arch import Arch
from noeira.codegen.cuda.launches import within
from noeira.codegen.cuda.rows import CudaFunction
from noeira.codegen.cut import check_stages, option, read_cut, whole
from noeira.codegen.rows import pieces_of
from noeira.codegen.scratch import Room
from noeira.errors import VerifyError
from noeira.ir.body import Body
from noeira.ir.plan import Stage
from noeira.ir.types import DTYPE_BYTES

# A key of 64 bits and a number.
ELEMENT_BYTES = DTYPE_BYTES["i64"] + DTYPE_BYTES["i32"]
# Elements that a block sorts: as much shared memory as every GPU gives a block.
PIECE = 4096
PIECE_BLOCK = 1024
# Distances that one launch does in registers: of 16 elements.
DISTANCES = 4
BLOCK = 256


@dataclass(frozen=True)
class ShuffleCut:
    """block: threads of a block that makes keys; piece: elements that a block sorts by itself, with
    piece_block threads; distances: those that a launch beyond pieces does at a time, with far_block
    threads in a block, 0 if there is none.
    """

    block: int = option()
    piece: int = option(stage="sort", least=2, power=True)
    piece_block: int = option(stage="sort", name="block")
    distances: int = 0
    far_block: int = 0

    @property
    def pairs(self) -> int:
        """Pairs of elements of a piece."""
        return self.piece // 2


@dataclass(frozen=True)
class ShuffleFunction(CudaFunction):
    """One launch of the sort."""

    role: str

    @property
    def run(self) -> int:
        """Elements of the runs that become sorted."""
        return self.options["run"]

    @property
    def elements(self) -> int:
        """Elements that a thread has in registers, for several distances."""
        return 1 << self.options["distances"]

    @property
    def pairs(self) -> int:
        """Pairs of these."""
        return self.elements // 2

    @property
    def span(self) -> int:
        """Twice the largest of its distances: elements from one that a thread has to the next that
        it has not.
        """
        return 2 * self.options["distance"]

    @property
    def nearest(self) -> int:
        """The least of its distances."""
        return self.span // self.elements

    def shares(self, total: int) -> int:
        """Threads' work, of so many elements in all."""
        return total // self.elements


class Shuffle(CudaAnchor):
    """Keys, sorted pieces, then for each length of runs the far distances and the near ones."""

    stem = "shuffle"
    Cut = ShuffleCut

    def rule(self, body: Body, machine: Arch) -> ShuffleCut:
        piece = min(self.view(body, machine), PIECE)
        return ShuffleCut(BLOCK, piece, min(PIECE_BLOCK, piece // 2), DISTANCES, BLOCK)

    def stages(self, body: Body, cut: ShuffleCut, machine: Arch) -> tuple[Stage, ...]:
        total, piece = self.view(body, machine), cut.piece
        grid = (("grid", pieces_of(total, cut.block)), ("block", cut.block))
        pieces = (("grid", total // piece), ("block", cut.piece_block), ("piece", piece))
        shared = piece * ELEMENT_BYTES
        stages = [
            launched("keys", (*grid, ("total", total))),
            launched("sort", pieces, shared),
        ]
        run = 2 * piece
        while run <= total:
            stages += far_stages(run, total, cut)
            stages.append(launched(f"merge_{exponent(run)}", (*pieces, ("run", run)), shared))
            run *= 2
        return tuple(stages)

    def scratch(self, body: Body, cut: ShuffleCut) -> tuple[Room, ...]:
        total = power_of_two(body.outputs[0].type.size)
        return Room("keys", "u64", total), Room("numbers", "i32", total)

    def check(self, body: Body, cut: ShuffleCut, machine: Arch) -> None:
        total = self.view(body, machine)
        if cut.piece > total:
            raise VerifyError(f"shuffle: piece must be at most {total}, not {cut.piece}")

    def read(self, body: Body, stages: tuple[Stage, ...], machine: Arch) -> ShuffleCut:
        within(stages, machine)
        far = [stage for stage in stages if stage.name.startswith("step_")]
        most = {name: most_of(far, name) for name in ("distances", "block")}
        cut = replace(
            read_cut(ShuffleCut, stages), distances=most["distances"], far_block=most["block"]
        )
        self.check(body, cut, machine)
        check_stages(ShuffleCut, stages, self.stages(body, cut, machine))
        return cut

    def view(self, body: Body, machine: Arch) -> int:
        """How many elements are sorted."""
        return power_of_two(body.outputs[0].type.size)

    def function(self, name: str, stage: Stage) -> ShuffleFunction:
        return ShuffleFunction(name, dict(stage.options), stage.name.partition("_")[0])


def most_of(stages: Sequence[Stage], name: str) -> int:
    """The largest number that an option has in a stage. Raises VerifyError for what is none."""
    values = [(stage, dict(stage.options).get(name, 1)) for stage in stages]
    for stage, value in values:
        if not whole(value) or value < 1:
            raise VerifyError(f"{stage}: {name} must be a whole number of at least 1")
    return max((value for _, value in values), default=1)


def far_stages(run: int, total: int, cut: ShuffleCut) -> Iterator[Stage]:
    """The launches for the distances in a run from half of it down to the length of a piece."""
    distance = run // 2
    while distance >= cut.piece:
        count = min(cut.distances, exponent(distance // cut.piece) + 1)
        threads = total >> count
        block = min(cut.far_block, threads)
        options = {"run": run, "distance": distance, "distances": count}
        name = f"step_{exponent(run)}_{exponent(distance)}"
        yield launched(name, (("grid", threads // block), ("block", block), *options.items()))
        distance >>= count


def power_of_two(samples: int) -> int:
    """The power of two that is sorted, at least 2."""
    return 1 << max(1, exponent(samples - 1) + 1)


def exponent(number: int) -> int:
    """The number's logarithm to base 2, rounded down; -1 for 0."""
    return number.bit_length() - 1
