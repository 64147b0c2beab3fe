"""What templates see of their loops: the elements these run over, and the functions to make."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from noeira.codegen.arch import WARP
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
    def grid(self) -> int:
        """Blocks of a launch, on a GPU."""
        return self.options["grid"]

    @property
    def block(self) -> int:
        """Threads of a block, on a GPU."""
        return self.options["block"]

    def pieces(self, elements: int, size: int) -> int:
        """How many accesses so many elements of `size` bytes are, where the stage moves them so."""
        return elements * size // self.options["access"]

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

    def bounds(self, ranges: Iterable[Range]) -> tuple[int, ...]:
        """Where the ranges start and end in turn; those without a gap between them as one."""
        found = list[int]()
        for start, end, inside in self.spans(ranges):
            if inside and found and found[-1] == start:
                found[-1] = end
            elif inside:
                found += (start, end)
        return tuple(found)

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
    def strips(self) -> int:
        """Strips of columns, as wide as a GPU's warp."""
        return -(-self.columns // WARP)

    def chunks(self, function: Function) -> int:
        """Chunks of rows that a function takes."""
        return -(-self.rows // function.options["rows"])

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

    def extent(self, load: Load) -> int:
        """Elements of the operand that is loaded."""
        return next(operand.size for operand in self.inputs if operand.id == load.source)

    def is_wide(self, load: Load) -> bool:
        """Whether elements that are taken together are together in the operand too."""
        return load.access == "full" or self.extent(load) % self.lanes == 0

    def period(self, load: Load, index: str = "index") -> str:
        """C text for where the element of a flat index lies in an operand, which may repeat."""
        return index if load.access == "full" else f"{index} % {self.extent(load)}"

    def place(self, load: Load) -> str:
        """C text for the address of a load at the present row and column.

        A `row` operand serves each run of as many rows as it has.
        """
        return f"{load.source} + {self.subscript(load)}"

    def subscript(self, load: Load) -> str:
        """C text for where the element of the present row and column lies in an operand."""
        if load.access == "full":
            return "index"
        rows = self.extent(load) // self.columns
        return "column" if rows == 1 else f"row % {rows} * {self.columns} + column"
