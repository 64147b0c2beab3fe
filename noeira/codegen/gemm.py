"""The GEMM of a C kernel: what its template sees, and the static rule that cuts a shape into tiles.

A tile of `rows` x `vectors` accumulators stays in registers over a block of k. The tiles are the
work items, in panel order: all tiles of rows of the first panel of columns, then of the next. A
thread takes a contiguous range of them and copies the panels of B that it needs to its own stack,
so a call is one stage, right for any number of threads. Each element is summed over ascending k
by fma whatever tile, block or thread it falls in: its bits depend on the operands alone. An
output may share memory with an operand of the tail that is read at the same index if there is one
block of k; with several, outputs overlap nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from noeira.codegen.loops import Grid
from noeira.codegen.target import CTYPES, ISA
from noeira.codegen.view import Kernel, Operand
from noeira.ir.types import DTYPE_BYTES

LANE_NUMBERS = {"f32": "int", "f64": "long long"}

# A block of a panel of B that several tiles of rows use: it stays in the L2 cache.
PANEL_BYTES = 128 * 1024
# The same for one tile of rows, which reads the copy once: it stays in the L1 cache.
SINGLE_USE_BYTES = 16 * 1024
# Fewer tiles of rows do not pay back a copy of B.
PACKING_ROW_TILES = 8
# One row reads every element of B once: more accumulators only leave fewer items to share.
GEMV_ACCUMULATORS = 8


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

    @property
    def a_place(self) -> str:
        """C text for the address of op(a)[top, k]."""
        return f"{self.a} + {_times('top', self.a_row)} + {_times('k', self.a_step)}"

    @property
    def b_place(self) -> str:
        """C text for the address of op(b)[k, left]."""
        return f"{self.b} + {_times('k', self.b_step)} + {_times('left', self.b_column)}"

    @property
    def formula(self) -> str:
        """The product as one writes it: `C[100, 784] = a0[100, 256] @ transpose(a1[784, 256])`."""
        a, b = f"{self.a}[{self.m}, {self.k}]", f"{self.b}[{self.k}, {self.n}]"
        if self.transpose_a:
            a = f"transpose({self.a}[{self.k}, {self.m}])"
        if self.transpose_b:
            b = f"transpose({self.b}[{self.n}, {self.k}])"
        return f"C[{self.m}, {self.n}] = {a} @ {b}"

    def tail_operands(self, kernel: Kernel) -> tuple[Operand, ...]:
        """The operands that the kernel's tail reads or writes, in the kernel's order."""
        tail = kernel.tail
        used = {load.source for load in tail.loads} | {store.target for store in tail.stores}
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

    `pack_b` says whether a block of a panel of B is copied, k by k, before the tiles use it; one
    whose last vector reaches beyond n always is.
    """

    row_tiles: Cut
    panels: Cut
    blocks: Cut
    pack_b: bool
    dtype: str
    lanes: int

    @property
    def ctype(self) -> str:
        """The C type of an element."""
        return CTYPES[self.dtype]

    @property
    def lane_number(self) -> str:
        """The C type of a lane's number in a shuffle, as wide as an element."""
        return LANE_NUMBERS[self.dtype]

    @property
    def items(self) -> int:
        """Tiles in all: the work that threads share."""
        return self.row_tiles.count * self.panels.count

    @property
    def tiles(self) -> tuple[tuple[int, int], ...]:
        """The tiles that occur, (rows, vectors), the largest first."""
        heights, widths = self.row_tiles.sizes, self.panels.sizes
        return tuple((rows, vectors) for vectors in widths for rows in heights)

    @property
    def accumulators(self) -> int:
        """Vectors of sums in the largest tile."""
        return self.row_tiles.size * self.panels.size

    def packed_sizes(self, n: int) -> tuple[int, ...]:
        """Vectors in the panels of B that are copied: all, the last if not full, or none."""
        if self.pack_b:
            return self.panels.sizes
        return self.panels.sizes[-1:] if n % self.lanes else ()


def choose_gemm(m: int, n: int, k: int, *, transpose_b: bool, dtype: str, isa: ISA) -> GemmChoice:
    """The cut by a static rule: tiles of least estimated cycles, blocks that fit the caches."""
    lanes = isa.lanes(dtype)
    tilings = _tilings(m, -(-n // lanes), isa)
    row_tiles, panels = min(tilings, key=lambda tiling: _cycles(*tiling, k))
    pack_b = transpose_b or row_tiles.count >= PACKING_ROW_TILES
    if row_tiles.count > 1 or (n % lanes and not pack_b):
        longest = PANEL_BYTES // (panels.size * isa.vector_bytes)
    elif pack_b:
        longest = SINGLE_USE_BYTES // (panels.size * isa.vector_bytes)
    else:
        longest = k
    return GemmChoice(row_tiles, panels, Cut(k, -(-k // longest)), pack_b, dtype, lanes)


def workspace_bytes(gemm: Gemm, choice: GemmChoice) -> int:
    """Bytes of workspace of a call: for the sums between blocks of k if no output can hold them."""
    if gemm.partial is not None or choice.blocks.count == 1:
        return 0
    return gemm.m * gemm.n * DTYPE_BYTES[choice.dtype]


def _times(name: str, factor: int) -> str:
    return name if factor == 1 else f"{name} * {factor}"


def _tilings(m: int, width: int, isa: ISA) -> Iterator[tuple[Cut, Cut]]:
    """The ways to cut m rows and `width` vectors so that a tile fits the registers.

    It needs its accumulators, a vector of B for each of its columns, and two for a broadcast and
    a product.
    """
    most = GEMV_ACCUMULATORS if m == 1 else isa.registers * 3 // 4
    for vectors in range(1, min(width, most) + 1):
        for rows in range(1, min(m, most // vectors) + 1):
            if rows * vectors + vectors + 2 <= isa.registers:
                yield Cut(m, -(-m // rows)), Cut(width, -(-width // vectors))


def _cycles(row_tiles: Cut, panels: Cut, k: int) -> float:
    """Estimated cycles on a core that starts two fma and two loads a cycle, fma latency four.

    A vector of B comes from the L2 cache in 9/4 cycles, from measurements. Smaller terms decide
    among equals: loads compete for issue, a tile has costs outside its loop over k, and each kind
    of tile is more code to compile and read.
    """
    total = 0.0
    for rows in row_tiles.sizes:
        for vectors in panels.sizes:
            loads = rows + vectors
            step = max(rows * vectors / 2, loads / 2, vectors * 9 / 4, 4) + loads / 20
            tile = k * step + 2 * rows * vectors + 30
            total += row_tiles.pieces(rows) * panels.pieces(vectors) * tile
    kinds = len(row_tiles.sizes) * len(panels.sizes)
    return total * (1 + 0.01 * (kinds - 1))
