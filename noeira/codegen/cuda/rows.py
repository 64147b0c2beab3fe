"""Rows and columns of elements as CUDA takes them: 16 bytes a thread, a warp's width of columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from noeira.codegen.ctext import plus
from noeira.codegen.cuda.arch import WARP
from noeira.codegen.rows import Rows, pieces_of, walked
from noeira.codegen.view import Function, Load, Operand
from noeira.errors import VerifyError

# Rows from here on are read by whole accesses even where they do not begin with one.
LONG_ROW = 256


@dataclass(frozen=True)
class CudaFunction(Function):
    """One CUDA kernel: how it is launched."""

    @property
    def grid(self) -> int:
        """Blocks."""
        return self.options["grid"]

    @property
    def block(self) -> int:
        """Threads of a block."""
        return self.options["block"]

    @property
    def warps(self) -> int:
        """Warps of a block."""
        return self.block // WARP

    @property
    def threads(self) -> int:
        """Threads of all blocks."""
        return self.grid * self.block

    @property
    def row_threads(self) -> int:
        """Threads that take a row together. Raises VerifyError if the kernel is not cut so."""
        if "row_threads" not in self.options:
            raise VerifyError(
                "its threads do not share rows, as those of ops of kind 'row' do: "
                "write kind = 'row' in the class of the op, or derive that of the kernel from Row"
            )
        return self.options["row_threads"]

    @property
    def farthest(self) -> int:
        """How far apart the threads of a row are whose numbers are combined first."""
        return self.row_threads // 2

    @property
    def team(self) -> str:
        """C text for the bits of as many threads as a row has, of a warp."""
        return f"{2**self.row_threads - 1:#x}u"

    @property
    def block_rows(self) -> int:
        """Rows that a block takes together."""
        return self.block // self.row_threads

    @property
    def grid_rows(self) -> int:
        """Rows that all blocks take together."""
        return self.grid * self.block_rows

    def block_width(self, width: int) -> int:
        """Elements that the threads of a block take together, so many neighbours each."""
        return self.block * width

    def row_width(self, width: int) -> int:
        """Elements that the threads of a row take together, so many neighbours each."""
        return self.row_threads * width

    @property
    def held(self) -> int:
        """Elements of a row that each of its threads keeps in registers."""
        return self.options.get("held", 0)


@dataclass(frozen=True)
class CudaRows(Rows):
    """Rows and columns; `lanes` are the elements of an access."""

    @property
    def strips(self) -> int:
        """Strips of columns, as wide as a warp."""
        return pieces_of(self.columns, WARP)

    @property
    def is_wide_row(self) -> bool:
        """Whether rows consist of whole accesses."""
        return not self.part

    @property
    def accesses(self) -> int:
        """Whole accesses of all elements."""
        return self.size // self.lanes

    @property
    def last(self) -> int:
        """Elements beyond those."""
        return self.rest(self.size)

    @property
    def first_last(self) -> int:
        """Where those begin."""
        return self.size - self.last

    @property
    def last_access(self) -> int:
        """The last column that a whole access can begin at."""
        return self.columns - self.lanes

    @property
    def whole_strips(self) -> bool:
        """Whether all strips are as wide as a warp."""
        return self.columns % WARP == 0

    def fills_warps(self, function: CudaFunction) -> bool:
        """Whether the threads of all rows fill their warps."""
        return self.rows * function.row_threads % WARP == 0

    def is_ragged(self, function: CudaFunction) -> bool:
        """Whether rows that do not consist of whole accesses are read by these all the same: if
        there is a thread for each element before the first and after the last.
        """
        edges = 2 * (self.lanes - 1)
        return not self.is_wide_row and self.columns >= LONG_ROW and function.row_threads >= edges

    @property
    def place(self) -> str:
        """C text for where a thread holds an element of a row."""
        return "i + j" if self.is_wide_row else "i"

    @property
    def inside(self) -> str:
        """C text for whether a place that a thread may hold elements at is in the row."""
        return f"{'access' if self.is_wide_row else 'column'} < {self.columns}"

    def is_full(self, function: CudaFunction) -> bool:
        """Whether all threads hold elements of the row at all places."""
        return function.held * function.row_threads == self.columns

    def kept(self, names: Sequence[str]) -> str:
        """C text that keeps elements of operands where they are held."""
        return "\n".join(f"{name}_held[{self.place}] = {name};" for name in names)

    def is_together(self, load: Load) -> bool:
        """Whether elements of a row that are taken together are one access in the operand too."""
        return load.access == "full" or (load.along and self.is_wide_row)

    def same(self, names: Sequence[str]) -> dict[str, str]:
        """Each name for itself."""
        return {name: name for name in names}

    def named(self, reads: Mapping[str, Operand]) -> dict[str, str]:
        """C text for an element of each of some operands, by their names in `reads`."""
        return {name: name for name in reads}

    @property
    def column_numbers(self) -> str:
        """C text for the number of the present column."""
        return f"set_{self.dtype}(column)"

    def tree(self, form: str) -> str:
        """C text for the sum of the elements of an access, added up as a tree, from their form."""
        terms = [form % lane for lane in range(self.lanes)]
        while len(terms) > 2:
            terms = [
                f"({one} + {other})" for one, other in zip(terms[::2], terms[1::2], strict=True)
            ]
        return " + ".join(terms)

    def is_wide(self, load: Load) -> bool:
        """Whether elements that are taken together are together in the operand too."""
        steps = load.walk
        return load.access == "full" or (
            steps[-1].inner == 1 and steps[-1].extent % self.lanes == 0
        )

    def stays(self, load: Load) -> bool:
        """Whether elements that are taken together read one element of the operand."""
        return all(step.inner % self.lanes == 0 for step in load.walk)

    def where(self, load: Load, lane: str = "") -> str:
        """C text for where the element at `index` lies in an operand, or one so many further."""
        index = f"(index + {lane})" if lane else "index"
        if load.access == "full":
            return index
        return plus(*(walked(index, self.size, step) for step in load.walk))
