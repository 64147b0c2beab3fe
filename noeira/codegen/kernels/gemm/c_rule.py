"""The static rule that cuts a GEMM: by shape alone, from estimated cycles and cache sizes."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from noeira.codegen.c.isa import ISA
from noeira.codegen.kernels.gemm.c_cut import GemmCut
from noeira.codegen.kernels.gemm.product import Gemm, Partition
from noeira.ir.types import DTYPE_BYTES

# A block of panels of B that several tiles use, or a copy of it, stays in the L2 cache: in half of
# it, which is larger where vectors are.
L2_VECTORS = 8192
# A copy of B is read faster, in full lines and few pages; making it pays for many rows of a matrix
# that is not in the L2 cache anyway.
PACKING_ROWS = 512
PACKING_BYTES = 2 * 1024 * 1024
# An A of so many bytes is not in the L2 cache: several panels together use what is read of it.
FAR_BYTES = 512 * 1024
# A row of B lies in lines and often pages of its own, of which a wide panel reads more: where one
# tile of rows reads a large B once, several panels go through so many rows together.
STREAMED_STEPS = 256
STREAMED_CYCLES = 2
# A product of fewer operations takes less than a microsecond: one thread does it.
SHARED_FLOPS = 32_768
# Threads share rows if there are enough of them to share evenly; else they share columns.
ROW_TILES = 4
SMALL_ELEMENTS = 4096
# Fewer tiles than this are too few to share; blocks of k are then summed apart, none shorter than
# that, if the work is worth a second stage.
FEW_ITEMS = 16
APART_STEPS = 256
APART_CYCLES = 100_000
# Cycles in which a vector of B is transposed.
TRANSPOSE_CYCLES = 6
# Vectors of columns that a thread takes at a time where these are dot products.
DOT_VECTORS = 4
# One row reads every element of B once: more accumulators only leave fewer items to share.
GEMV_ACCUMULATORS = 8


@lru_cache(maxsize=1 << 14)
def choose_gemm(gemm: Gemm, dtype: str, isa: ISA) -> GemmCut:
    """The cut by a static rule: tiles of least estimated cycles, blocks that fit the caches."""
    lanes = isa.lanes(dtype)
    if gemm.dot_products(Partition(gemm.m, 1)):
        width = -(-gemm.n // lanes)
        return dot_cut(gemm, max(FEW_ITEMS, -(-width // DOT_VECTORS)), dtype, isa)
    row_tiles, panels = tilings_by_cost(gemm, dtype, isa)[0]
    large = gemm.n * gemm.k * DTYPE_BYTES[dtype] >= PACKING_BYTES
    pack_b = gemm.transpose_b or (large and gemm.m >= PACKING_ROWS)
    longest = L2_VECTORS // panels.size
    if row_tiles.count == 1 and not pack_b:
        longest = STREAMED_STEPS if large else gemm.k
    fitting = -(-gemm.k // longest)
    pieces = min(-(-FEW_ITEMS // (row_tiles.count * panels.count)), gemm.k // APART_STEPS)
    apart = pieces > 1 and _cycles(row_tiles, panels, gemm.k) >= APART_CYCLES
    blocks = Partition(gemm.k, max(fitting, pieces) if apart else fitting)
    streamed = row_tiles.count == 1 and large and not pack_b
    far = gemm.m * gemm.k * DTYPE_BYTES[dtype] >= FAR_BYTES
    group = panels_at_a_time(blocks, panels) if (far or streamed) and not apart else 1
    by_rows = row_tiles.count >= ROW_TILES and not (apart or large) and _rows_are_more(gemm)
    return GemmCut(
        row_tiles, panels, blocks, group, by_rows, apart, pack_b, dtype, lanes, shared(gemm)
    )


def dot_cut(gemm: Gemm, panels: int, dtype: str, isa: ISA) -> GemmCut:
    """The cut of a product of few rows whose elements are dot products, in as many panels as can
    be, at most so many.
    """
    lanes = isa.lanes(dtype)
    width = -(-gemm.n // lanes)
    return GemmCut(
        Partition(gemm.m, 1),
        Partition(width, min(width, panels)),
        Partition(gemm.k, 1),
        1,
        by_rows=False,
        apart=False,
        pack_b=False,
        dtype=dtype,
        lanes=lanes,
        split=shared(gemm),
    )


def shared(gemm: Gemm) -> bool:
    """Whether threads share the work: not what takes less than a microsecond."""
    return 2 * gemm.m * gemm.n * gemm.k >= SHARED_FLOPS


def tilings_by_cost(
    gemm: Gemm, dtype: str, isa: ISA, even: bool = True
) -> list[tuple[Partition, Partition]]:
    """The ways to cut a product into tiles of rows and panels of vectors, the one of least
    estimated work first. even: whether threads share the tiles, and so evenly is better.
    """
    width = -(-gemm.n // isa.lanes(dtype))
    copying = TRANSPOSE_CYCLES * gemm.k * width if gemm.transpose_b else 0

    def cost(cuts: tuple[Partition, Partition]) -> float:
        return (_cycles(*cuts, gemm.k) + copying) * (_uneven(*cuts) if even else 1)

    return sorted(dict.fromkeys(_tilings(gemm.m, width, isa)), key=cost)


def _rows_are_more(gemm: Gemm) -> bool:
    """Whether A and C, of which threads that share rows have a part each, are more than B; it may
    be as large as an L1 cache.
    """
    return gemm.m * (gemm.n + gemm.k) >= gemm.n * gemm.k - SMALL_ELEMENTS


def panels_at_a_time(blocks: Partition, panels: Partition) -> int:
    """As many panels as have room in the L2 cache, at least one."""
    return min(max(L2_VECTORS // (blocks.size * panels.size), 1), panels.count)


def _tilings(m: int, width: int, isa: ISA) -> Iterator[tuple[Partition, Partition]]:
    """The ways to cut m rows and `width` vectors so that a tile fits the registers.

    It needs its accumulators, a vector of B for each of its columns, and two for a broadcast and
    a product.
    """
    most = GEMV_ACCUMULATORS if m == 1 else isa.registers * 3 // 4
    for vectors in range(1, min(width, most) + 1):
        for rows in range(1, min(m, most // vectors) + 1):
            if rows * vectors + vectors + 2 <= isa.registers:
                yield Partition(m, -(-m // rows)), Partition(width, -(-width // vectors))


def _uneven(row_tiles: Partition, panels: Partition) -> float:
    """How much longer the last of a few threads works than all do on average."""
    items = row_tiles.count * panels.count
    return sum(-(-items // threads) * threads / items for threads in (2, 4)) / 2


def _cycles(row_tiles: Partition, panels: Partition, k: int) -> float:
    """Estimated cycles on a core that starts two fma and two loads a cycle, fma latency four.

    A vector of B comes from the L2 cache in 9/4 cycles, from measurements. Smaller terms decide
    among equals: each row of a panel begins a line, loads compete for issue, a tile has costs
    outside its loop over k, and each kind of tile is more code to compile, read and fetch.
    """
    kinds = len(row_tiles.sizes) * len(panels.sizes)
    total = float(STREAMED_CYCLES * k * panels.count)
    for rows in row_tiles.sizes:
        for vectors in panels.sizes:
            loads = rows + vectors
            step = max(rows * vectors / 2, loads / 2, vectors * 9 / 4, 4) + loads / 20
            tile = k * step + 2 * rows * vectors + 4 * rows + 30 * kinds
            total += row_tiles.pieces(rows) * panels.pieces(vectors) * tile
    return total * (1 + 0.01 * (kinds - 1))
