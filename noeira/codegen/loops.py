"""What C templates see of their loops: the elements these run over, and the functions to make."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from noeira.codegen.view import Load, Operand
from noeira.ir.types import Range

# Threads share arrays by whole cache lines.
LINE_BYTES = 64


@dataclass(frozen=True)
class Function:
    """One C function of a kernel: its name, and the target's options for this stage."""

    name: str
    options: dict[str, Any]

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
class Staged:
    """The functions of a kernel in order, each begun when all of the one before is done."""

    functions: tuple[Function, ...]


@dataclass(frozen=True)
class Grid:
    """`rows` x `columns` elements of one dtype, row major, taken a vector of `lanes` at a time.

    Element-wise code over more rows than one finds `row`, `column` and `index` in scope, over one
    row only `index`. `result` is the C name of the value that an anchor takes from it.
    """

    dtype: str
    ctype: str
    bytes: int
    lanes: int
    rows: int
    columns: int
    inputs: tuple[Operand, ...] = ()
    result: str = ""

    def reshaped(self, rows: int, columns: int) -> Grid:
        """As many elements of the same dtype as are asked for."""
        return replace(self, rows=rows, columns=columns)

    def spans(self, ranges: Iterable[Range]) -> Iterator[tuple[int, int, bool]]:
        """A row cut at the bounds of the ranges: starts, ends, and whether the piece is in one."""
        start = 0
        for span in ranges:
            if start < span.start:
                yield start, span.start, False
            yield span.start, min(span.stop, self.columns), True
            start = span.stop
        if start < self.columns:
            yield start, self.columns, False

    @property
    def lowest(self) -> str:
        """C text for the least finite number."""
        return {"f32": "-0x1.fffffep127f", "f64": "-0x1.fffffffffffffp1023"}[self.dtype]

    @property
    def size(self) -> int:
        """Elements in all."""
        return self.rows * self.columns

    @property
    def vectors(self) -> int:
        """Vectors that cover a row."""
        return -(-self.columns // self.lanes)

    @property
    def part(self) -> int:
        """Elements of a row beyond its full vectors."""
        return self.columns % self.lanes

    @property
    def full(self) -> int:
        """Elements of a row in full vectors."""
        return self.columns - self.part

    @property
    def line(self) -> int:
        """Elements in a cache line: at least a vector."""
        return max(LINE_BYTES // self.bytes, self.lanes)

    @property
    def lines(self) -> int:
        """Cache lines that cover a row."""
        return -(-self.columns // self.line)

    @property
    def blocks(self) -> int:
        """Blocks of as many rows as a vector has lanes."""
        return -(-self.rows // self.lanes)

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

    def place(self, load: Load) -> str:
        """C text for the address of a load at the present row and column.

        A `row` operand serves each run of as many rows as it has.
        """
        if load.access == "full":
            return f"{load.source} + index"
        operand = next(operand for operand in self.inputs if operand.id == load.source)
        rows = operand.size // self.columns
        if rows == 1:
            return f"{load.source} + column"
        return f"{load.source} + row % {rows} * {self.columns} + column"
