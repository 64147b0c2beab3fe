"""Rows and columns of elements as C takes them: a vector at a time, by whole cache lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from noeira.codegen.rows import Rows, pieces_of
from noeira.codegen.view import Function, Load, Operand

# Threads share arrays by whole cache lines.
LINE_BYTES = 64
# Sums over a row are taken in so many ways: an addition takes as many times as long as the next can
# begin after.
WAYS = 4


@dataclass(frozen=True)
class CFunction(Function):
    """One C function of a kernel."""

    @property
    def split(self) -> bool:
        """Whether threads share the work; else thread 0 does it."""
        return self.options.get("split", False)

    @property
    def stream(self) -> bool:
        """Whether results are stored past the caches."""
        return self.options.get("stream", False)

    def store(self, part: str = "") -> str:
        """What the names of its stores begin with: partial vectors are stored as usual."""
        return "stream" if self.stream and not part else "store"


@dataclass(frozen=True)
class CRows(Rows):
    """Rows and columns; `lanes` are those of a vector."""

    @property
    def vectors(self) -> int:
        """Vectors that cover a row."""
        return pieces_of(self.columns, self.lanes)

    @property
    def ways(self) -> range:
        """Vectors of a row that are added to numbers of their own, to be joined afterwards."""
        return range(WAYS if self.full >= self.width(WAYS) else 1)

    @property
    def joint(self) -> int:
        """Elements of a row that are taken in all the ways together."""
        return self.grouped(WAYS)

    def width(self, vectors: int) -> int:
        """Elements of so many vectors: where the vector of that number begins."""
        return vectors * self.lanes

    def grouped(self, vectors: int) -> int:
        """Elements of a row that are taken so many vectors at a time."""
        return self.full - self.full % self.width(vectors)

    def way(self, names: Sequence[str], way: int) -> dict[str, str]:
        """The C names of numbers that one of the ways adds to."""
        return {name: f"{name}_{way}" for name in names}

    @property
    def line(self) -> int:
        """Elements in a cache line: at least a vector."""
        return max(LINE_BYTES // self.bytes, self.lanes)

    @property
    def lines(self) -> int:
        """Cache lines that cover a row."""
        return pieces_of(self.columns, self.line)

    @property
    def whole_lines(self) -> bool:
        """Whether a row ends with a cache line."""
        return self.columns % self.line == 0

    @property
    def blocks(self) -> int:
        """Blocks of as many rows as a vector has lanes."""
        return pieces_of(self.rows, self.lanes)

    @property
    def whole_blocks(self) -> bool:
        """Whether all of these have as many rows."""
        return self.rows % self.lanes == 0

    @property
    def narrow(self) -> bool:
        """Whether rows are shorter than a vector, and enough of them to take a lane for each."""
        return self.columns < self.lanes <= self.rows

    def strided(self, form: str) -> str:
        """C text for the lanes of a vector that has one element of each of as many rows, from the
        form of an element: `z[c%s]` gives z[c], z[c + 10], …
        """
        steps = range(0, self.lanes * self.columns, self.columns)
        return ", ".join(form % (f" + {step}" if step else "") for step in steps)

    def spread(self, vector: str, block: int) -> str:
        """C text for the vector that has, at each place of block `block` of a vector's length of as
        many rows as it has lanes, the lane of `vector` that goes with the place's row.
        """
        places = range(block * self.lanes, (block + 1) * self.lanes)
        lanes = (f"{vector}[{place // self.columns}]" for place in places)
        return f"({self.dtype}v){{{', '.join(lanes)}}}"

    @property
    def lane_numbers(self) -> str:
        """C text for the vector 0, 1, 2, …"""
        return f"({self.dtype}v){{{', '.join(map(str, range(self.lanes)))}}}"

    @property
    def column_numbers(self) -> str:
        """C text for the vector of the numbers of columns, from the present one on."""
        return f"set_{self.dtype}(column) + {self.lane_numbers}"

    def loaded(
        self, reads: Mapping[str, Operand], index: str, part: str, count: str
    ) -> dict[str, str]:
        """C text for a vector of each of some operands, by their names in `reads`, but for those
        that a head makes.
        """
        return {
            name: f"load_{operand.dtype}{part}({operand} + {index}{count})"
            for name, operand in reads.items()
            if operand
        }

    def strips(self, vectors: int) -> int:
        """Strips of so many vectors of columns that cover a row."""
        return pieces_of(self.vectors, vectors)

    def last_strip(self, vectors: int) -> int:
        """Vectors of the last of these strips."""
        return self.vectors - (self.strips(vectors) - 1) * vectors

    def place(self, load: Load, index: str = "index") -> str:
        """C text for the address of a load at the present row and column."""
        return f"{load.source} + {self.subscript(load, index)}"
