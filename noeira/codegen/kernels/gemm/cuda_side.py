"""One operand of a CUDA GEMM: its way from global to shared memory and to a thread's registers, as
C text for the places there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from noeira.codegen.ctext import added, plus, quotient, remainder, times
from noeira.codegen.cuda.arch import ACCESS_BYTES, ceil_to

# Bytes that the banks of shared memory hand out at a time.
BANK_BYTES = 128


@dataclass(frozen=True)
class Side:
    """One operand as a block takes it: `extent` rows of op(A), or columns of op(B), by `depth`
    steps of k.

    letter: `a` or `b`; operand: its id; total: rows or columns in all; each: those of a thread;
    threads: of a block; along_k: whether elements that follow each other in memory do so in k;
    apart: elements in memory between rows of A or columns of B, or between steps, 0 if there are
    none in between; first_place: C text for where the first element of the block's product lies.
    gathered: whether elements lie elsewhere than at equal distances.
    """

    gathered: ClassVar[bool] = False

    letter: str
    operand: str
    total: int
    k: int
    extent: int
    depth: int
    each: int
    threads: int
    along_k: bool
    lanes: int
    apart: int = 0
    first_place: str = "0"

    @property
    def start(self) -> str:
        """The name of the first row or column of the block."""
        return {"a": "top", "b": "left"}[self.letter]

    @property
    def thread(self) -> str:
        """The name of a thread's place among the block's rows or columns of threads."""
        return {"a": "down", "b": "across"}[self.letter]

    @property
    def line(self) -> str:
        """What lies along it."""
        return {"a": "row", "b": "column"}[self.letter]

    # From global to shared memory.

    @property
    def access(self) -> int:
        """Elements that are fetched at a time: 16 bytes where these never begin elsewhere."""
        extents = (self.k, self.depth) if self.along_k else (self.total, self.extent)
        return self.lanes if all(extent % self.lanes == 0 for extent in extents) else 1

    @property
    def accesses(self) -> int:
        """Accesses that fetch a tile."""
        return self.extent * self.depth // self.access

    @property
    def count(self) -> int:
        """Accesses of a thread, at most."""
        return -(-self.accesses // self.threads)

    @property
    def run(self) -> int:
        """Accesses that follow each other in memory."""
        return (self.depth if self.along_k else self.extent) // self.access

    @property
    def first(self) -> tuple[str, str]:
        """C text for the row or column, and for the step, of a thread's first access in a tile."""
        along = times(remainder("threadIdx.x", self.run, self.threads), self.access)
        other = quotient("threadIdx.x", self.run, self.threads)
        return (other, along) if self.along_k else (along, other)

    def later(self, along: int, other: int) -> str:
        """C text for what is added for access i of a thread, where one access further in memory
        adds `along`, and one row or column (or step, if they lie in memory) adds `other`.
        """
        if self.count == 1:
            return ""
        if self.run <= self.threads:
            return added(times("i", self.threads // self.run * other))
        turns = self.run // self.threads
        within = times(remainder("i", turns, self.count), self.threads * along)
        return added(within, times(quotient("i", turns, self.count), other))

    @property
    def at_line(self) -> str:
        """C text for the row or column of access i."""
        later = self.later(0, 1) if self.along_k else self.later(self.access, 0)
        return f"{self.start} + {self.letter}_{self.line}{later}"

    @property
    def at_step(self) -> str:
        """C text for the step of access i in the whole of k; `k` is the first of the tile."""
        later = self.later(self.access, 0) if self.along_k else self.later(0, 1)
        return f"k + {self.letter}_step{later}"

    def guard(self, whole: bool = False) -> str:
        """C text of the condition that access i is there; empty if all are. `whole`: no step of the
        tile is beyond k.
        """
        tests = list[str]()
        if self.idle:
            tests.append(self.idle)
        if self.total % self.extent:
            tests.append(f"{self.at_line} < {self.total}")
        if self.k % self.depth and not whole:
            tests.append(f"{self.at_step} < {self.k}")
        return " && ".join(tests)

    @property
    def idle(self) -> str:
        """C text of the condition that a thread fetches anything; empty if all do."""
        return f"threadIdx.x < {self.accesses}" if self.accesses < self.threads else ""

    @property
    def pitch(self) -> int:
        """Elements in memory between rows of A or columns of B, or between steps."""
        return self.apart or (self.k if self.along_k else self.total)

    @property
    def origin(self) -> str:
        """C text for the address of a thread's first element of all."""
        line = f"({self.start} + {self.letter}_{self.line})"
        step = f"(k + {self.letter}_step)"
        outer, inner = (line, step) if self.along_k else (step, line)
        return plus(self.operand, self.first_place, times(outer, self.pitch), inner[1:-1])

    @property
    def from_next(self) -> str:
        """C text for what is added to that address for access i."""
        return self.later(self.access, self.pitch)

    @property
    def advance(self) -> int:
        """Elements in memory from a tile to the next."""
        return self.depth if self.along_k else self.depth * self.pitch

    # In shared memory: step by step, the rows or columns of each together.

    @property
    def turned(self) -> bool:
        """Whether an access becomes elements of several steps."""
        return self.along_k and self.access > 1

    @property
    def skew(self) -> int:
        """Elements left free after each group of steps.

        Where memory goes along k, a warp stores several groups of steps at a time, and those would
        fall into the same banks. With the gap they are spread over all of them, or as many as a
        multiple of 16 bytes allows, which reads of 16 bytes need.
        """
        if not self.along_k:
            return 0
        return max(self.lanes, BANK_BYTES // (ACCESS_BYTES // self.lanes) // self.run)

    @property
    def skew_comment(self) -> str:
        """A sentence about the gap."""
        steps = f"{self.group} steps" if self.group > 1 else "step"
        why = "so that the stores of a warp are spread over the banks"
        return f"{self.skew} are free after each {steps}, {why}."

    @property
    def group(self) -> int:
        """Steps before each gap."""
        return self.access if self.along_k else 1

    @property
    def size(self) -> int:
        """Elements of shared memory, whole accesses."""
        used = self.depth * self.extent + self.depth // self.group * self.skew
        return ceil_to(used, self.lanes)

    def place(self, step: str) -> str:
        """C text for where a step begins."""
        if self.group == 1:
            return times(step, self.extent + self.skew)
        return plus(times(step, self.extent), f"{step} / {self.group} * {self.skew}")

    @property
    def to_first(self) -> str:
        """C text for where a thread's first element goes."""
        return plus(self.place(f"{self.letter}_step"), f"{self.letter}_{self.line}")

    def to_next(self, tile: str, lane: str = "0") -> str:
        """C text for what is added to that for access i, in the tile at that place; `lane` is which
        element of the access, if these go to several steps.
        """
        along = self.access * self.extent + self.skew if self.along_k else self.access
        later = self.later(along, 1 if self.along_k else self.extent)
        return plus(tile, times(lane, self.extent), later.removeprefix(" + ") or "0")

    # From shared memory to registers.

    @property
    def unit(self) -> int:
        """Elements of a step that a thread reads at a time, and that are together in C."""
        return self.lanes if self.each % self.lanes == 0 else 1

    @property
    def between(self) -> int:
        """Rows or columns of the block from a read of a thread to its next: the other threads' are
        in between, so that threads side by side read from all banks.
        """
        return self.extent // self.each * self.unit

    def own(self, index: str, inside: bool = True) -> str:
        """C text for where element `index` of a thread lies among the block's; it is the first of a
        read if not `inside`.
        """
        groups = times(quotient(index, self.unit, self.each), self.between)
        rest = remainder(index, self.unit, self.each) if inside else "0"
        return plus(groups, times(self.thread, self.unit), rest)

    @property
    def units(self) -> int:
        """Reads of a thread for a step."""
        return self.each // self.unit

    @property
    def read(self) -> str:
        """C text for where read i of a step begins in shared memory."""
        later = times("i", self.between) if self.units > 1 else "0"
        return plus(self.place("step"), later, times(self.thread, self.unit))

    def element(self, index: str) -> str:
        """C text for an element of what a thread has read."""
        if self.units == 1:
            return f"{self.letter}.at[{index}]" if self.unit > 1 else self.letter
        if self.unit == 1:
            return f"{self.letter}[{index}]"
        return f"{self.letter}[{index} / {self.unit}].at[{index} % {self.unit}]"
