"""The GEMM of a C kernel: what its template sees of a product, and of how it is cut.

A tile of `rows` x `vectors` accumulators stays in registers over a block of k. Tiles lie in panels
of columns; a thread takes tiles of rows in all panels, or a contiguous range of panels, and copies
what it must of B to its own stack, so that a call is right for any number of threads. Each element
is summed over ascending k by fma whatever tile, block or thread it falls in: its bits depend on
the operands alone, unless blocks are summed apart or elements are dot products; those have an
order of their own. An output may share memory with an operand of the tail that is read at the
same index if there is one block of k; with several, outputs overlap nothing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from noeira.codegen.loops import Function, Grid
from noeira.codegen.target import CTYPES
from noeira.codegen.view import Kernel, Operand
from noeira.ir.plan import Choice, Stage
from noeira.ir.types import DTYPE_BYTES

# Steps of k that B, where it is not copied, is fetched ahead of its use.
PREFETCH_STEPS = 8
# A thread copies at most so many bytes of B at a time: they have to have room on its stack.
COPIED_BYTES = 1 << 20
# Sums of a tile: more would only be spilt, and be long code.
TILE_VECTORS = 64
# The options of a stage that it need not say.
USUAL = {"blocks": 1, "group": 1, "by_rows": False, "apart": False, "pack_b": False, "split": False}
# Rows of C that are made of dot products: more would not have room for their sums.
DOT_ROWS = 4
# A tail is unrolled over a tile if it has few lines, none of which calls more than an instruction.
UNROLLED_LINES = 4
CHEAP = {"set", "fma", "fnma", "max", "min", "at_least", "at_most", "abs", "select"}
CHEAP |= {"lt", "le", "gt", "ge", "eq"}


@dataclass(frozen=True)
class Cut:
    """`extent` cut into `count` pieces that differ by at most one, the larger ones first."""

    extent: int
    count: int

    @property
    def size(self) -> int:
        """The size of a larger piece."""
        return -(-self.extent // self.count)

    @property
    def larger(self) -> int:
        """How many pieces have that size; the others are one smaller."""
        return self.extent - self.count * (self.size - 1)

    @property
    def sizes(self) -> tuple[int, ...]:
        """The sizes that occur, the larger first."""
        return (self.size,) if self.larger == self.count else (self.size, self.size - 1)

    def pieces(self, size: int) -> int:
        """How many pieces have this one of the `sizes`."""
        return self.larger if size == self.size else self.count - self.larger

    def start(self, index: str) -> str:
        """C text for where the piece of that index, a C variable, begins."""
        if self.larger == self.count:
            return f"{index} * {self.size}"
        return f"({index} * {self.size - 1} + ({index} < {self.larger} ? {index} : {self.larger}))"

    def length(self, index: str) -> str:
        """C text for the size of the piece of that index."""
        if self.larger == self.count:
            return str(self.size)
        return f"({index} < {self.larger} ? {self.size} : {self.size - 1})"


@dataclass(frozen=True)
class Gemm:
    """C[m, n] = op(a)[m, k] @ op(b)[k, n], all row major.

    A transposed operand is stored [k, m] or [n, k]. `a` and `b` are operand ids, `result` is the
    name that the kernel's tail has for an element of C. `partial` is an output of shape [m, n] in
    the GEMM's dtype: it holds the sums between blocks of k. Without one the workspace does.
    """

    m: int
    n: int
    k: int
    a: str
    b: str
    result: str
    transpose_a: bool = False
    transpose_b: bool = False
    partial: str | None = None

    @property
    def a_row(self) -> int:
        """Elements of `a` between rows of op(a)."""
        return 1 if self.transpose_a else self.k

    @property
    def a_step(self) -> int:
        """Elements of `a` between steps of k."""
        return self.m if self.transpose_a else 1

    @property
    def b_column(self) -> int:
        """Elements of `b` between columns of op(b)."""
        return self.k if self.transpose_b else 1

    @property
    def b_step(self) -> int:
        """Elements of `b` between steps of k."""
        return 1 if self.transpose_b else self.n

    def dot_products(self, row_tiles: Cut) -> bool:
        """Whether elements can be dot products of rows of A and of B: their elements are contiguous
        and so few that their sums have room in registers.
        """
        return self.transpose_b and self.a_step == 1 and row_tiles.size <= DOT_ROWS

    def a_place(self, row: str, k: str) -> str:
        """C text for the address of op(a)[row, k]; an empty name stands for 0."""
        return self.a + _times(row, self.a_row) + _times(k, self.a_step)

    def b_place(self, k: str, column: str) -> str:
        """C text for the address of op(b)[k, column]."""
        return self.b + _times(k, self.b_step) + _times(column, self.b_column)

    @property
    def formula(self) -> str:
        """The product as one writes it: `C[100, 784] = a0[100, 256] @ transpose(a1[784, 256])`."""
        a, b = f"{self.a}[{self.m}, {self.k}]", f"{self.b}[{self.k}, {self.n}]"
        if self.transpose_a:
            a = f"transpose({self.a}[{self.k}, {self.m}])"
        if self.transpose_b:
            b = f"transpose({self.b}[{self.n}, {self.k}])"
        return f"C[{self.m}, {self.n}] = {a} @ {b}"

    def tile_operands(self, kernel: Kernel) -> tuple[Operand, ...]:
        """The operands that a tile reads or writes besides op(b), in the kernel's order: those of
        the tail only if it ends in that.
        """
        tail, used = kernel.tail, {self.a}
        if not kernel.choice.apart:
            used |= {load.source for load in tail.loads} | {store.target for store in tail.stores}
        return tuple(operand for operand in kernel.inputs + kernel.outputs if operand.id in used)

    def panel_operands(self, kernel: Kernel) -> tuple[Operand, ...]:
        """The operands that a panel needs: those of its tiles, and op(b)."""
        used = {self.b, *(operand.id for operand in self.tile_operands(kernel))}
        return tuple(operand for operand in kernel.inputs + kernel.outputs if operand.id in used)

    def tail_grid(self, kernel: Kernel) -> Grid:
        """C as the elements that the kernel's tail runs over."""
        choice = kernel.choice
        size = DTYPE_BYTES[choice.dtype]
        shape = (self.m, self.n)
        return Grid(choice.dtype, choice.ctype, size, choice.lanes, *shape, kernel.inputs)


@dataclass(frozen=True)
class GemmChoice:
    """How a GEMM is cut: m into tiles of rows, the vectors that cover n into panels, k into blocks.

    `group` is how many panels a thread takes at a time, tile of rows by tile of rows. `by_rows`
    says whether threads share rows of C; else they share columns. `apart` says whether blocks are
    summed apart, so that threads can share them too, and then added in a stage `total`. `pack_b`
    says whether a block of a panel of B is copied, k by k, before the tiles use it. `split` says
    whether threads share the work at all.
    """

    row_tiles: Cut
    panels: Cut
    blocks: Cut
    group: int
    by_rows: bool
    apart: bool
    pack_b: bool
    dtype: str
    lanes: int
    split: bool = False

    @property
    def ctype(self) -> str:
        """The C type of an element."""
        return CTYPES[self.dtype]

    @property
    def tiles(self) -> tuple[tuple[int, int], ...]:
        """The tiles that occur, (rows, vectors), the largest first."""
        heights, widths = self.row_tiles.sizes, self.panels.sizes
        return tuple((rows, vectors) for vectors in widths for rows in heights)

    def is_tile(self, rows: int, vectors: int) -> str:
        """C text of the condition that a tile has this size."""
        sizes = (("rows", self.row_tiles, rows), ("vectors", self.panels, vectors))
        tests = [f"{name} == {size}" for name, cut, size in sizes if len(cut.sizes) > 1]
        return f"if ({' && '.join(tests)})"

    @property
    def units(self) -> int:
        """The work of all items, a tile of one vector being one: what threads share evenly."""
        return self.row_tiles.count * self.panels.extent

    @property
    def items(self) -> int:
        """Tiles in all, over all blocks."""
        return self.row_tiles.count * self.panels.count * self.blocks.count

    def item_of(self, unit: str) -> str:
        """C text for the item that a unit of work, a C variable, lies in."""
        wide, narrow = self.panels.size, self.panels.size - 1
        if len(self.panels.sizes) == 1:
            return f"{unit} / {wide}" if wide > 1 else unit
        items = self.row_tiles.count * self.panels.larger
        rest = f"{items} + ({unit} - {items * wide}){f' / {narrow}' if narrow > 1 else ''}"
        return f"{unit} < {items * wide} ? {unit} / {wide} : {rest}"

    @property
    def prefetch(self) -> int:
        """How many steps of k ahead b is fetched."""
        return PREFETCH_STEPS

    @property
    def copy_size(self) -> int:
        """Elements of the copy of a block of a panel."""
        return self.blocks.size * self.panels.size * self.lanes

    @property
    def copied_bytes(self) -> int:
        """Bytes of B that a thread copies at a time."""
        return self.group * self.copy_size * DTYPE_BYTES[self.dtype] if self.pack_b else 0

    @property
    def chained(self) -> bool:
        """Whether a block of k goes on from the sums of the one before."""
        return self.blocks.count > 1 and not self.apart

    @property
    def options(self) -> tuple[tuple[str, Any], ...]:
        """The choice as the options of a stage: the tiles, and what is not as usual."""
        unusual = (
            ("blocks", self.blocks.count),
            ("group", self.group),
            ("by_rows", self.by_rows),
            ("apart", self.apart),
            ("pack_b", self.pack_b),
            ("split", self.split),
        )
        tiles = ("row_tiles", self.row_tiles.count), ("panels", self.panels.count)
        return (*tiles, *((name, value) for name, value in unusual if value != USUAL[name]))

    def functions(self, symbol: str) -> tuple[Function, ...]:
        """The functions of a kernel: the product, and the sum of blocks that were made apart."""
        if not self.apart:
            return (Function(symbol, {}),)
        return Function(f"{symbol}_gemm", {}), Function(f"{symbol}_total", {"split": self.split})

    def unroll(self, kernel: Kernel, times: int) -> str:
        """The pragma before a loop over a tile's sums: a short tail is unrolled, so that the sums
        go to it in registers.
        """
        called = set(re.findall(r"(\w+)_f(?:32|64)\(", " ".join(kernel.tail.lines)))
        short = called <= CHEAP and len(kernel.tail.lines) <= UNROLLED_LINES
        return f"#pragma GCC unroll {times}" if short else ""

    def overreads(self, gemm: Gemm) -> int:
        """Rows at the end of B from whose last columns a whole vector reaches beyond B's end."""
        rest = gemm.n % self.lanes
        return -(-(self.lanes - rest) // gemm.n) if rest and not self.pack_b else 0

    def dots(self, gemm: Gemm) -> bool:
        """Whether elements are dot products of rows of A and of B: B is transposed, not copied."""
        return gemm.transpose_b and not self.pack_b

    def dot_columns(self, rows: int) -> int:
        """Columns whose dot products are made together: as many as have sums in registers."""
        return min(8 if rows <= 2 else 4, self.lanes)


def gemm_run(gemm: Gemm, cut: GemmChoice) -> Choice:
    """The stages of a GEMM that is cut so, and its workspace: for the sums of blocks that are made
    apart, and for those between blocks if no output can hold them.
    """
    size = gemm.m * gemm.n * DTYPE_BYTES[cut.dtype]
    stage = Stage("gemm", cut.options)
    if cut.apart:
        return Choice(
            (stage, Stage("total", (("split", True),) if cut.split else ())),
            cut.blocks.count * size,
        )
    return Choice((stage,), size if cut.chained and gemm.partial is None else 0)


def _times(name: str, factor: int) -> str:
    """What is added to an address for an index, if any."""
    if not name:
        return ""
    return f" + {name}" if factor == 1 else f" + {name} * {factor}"
