"""The cuts that a search may try for a product in C, likely ones first.

A rule gives one by shape; here are the others that could be better on some machine. Whatever the
target accepts may stand in a table.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from noeira.codegen.c.isa import ISA
from noeira.codegen.kernels.gemm.c_cut import COPIED_BYTES, TILE_VECTORS, GemmCut
from noeira.codegen.kernels.gemm.c_rule import dot_cut, panels_at_a_time, shared, tilings_by_cost
from noeira.codegen.kernels.gemm.product import Gemm, Partition
from noeira.ir.types import DTYPE_BYTES

# Of the ways to cut a product into tiles, those of least estimated work.
TILINGS = 20
# Panels of columns where these are dot products.
DOT_PANELS = (4, 8, 16, 32, 64)
# Blocks of k summed apart: how many, of how many steps at least, and how many tiles are enough.
PIECES = (2, 4, 8)
STEPS = 128
MOST_PIECES = 64
# Bytes of one panel of b over a block of k that are tried: all of k, parts of an L2 cache, half an
# L1 cache.
PANEL_BYTES = (None, 128 * 1024, 256 * 1024, 64 * 1024, 16 * 1024)


def gemm_candidates(gemm: Gemm, dtype: str, isa: ISA) -> Iterator[GemmCut]:
    """The cuts to try for a GEMM: the likely ways to cut it into tiles, each with k in blocks of
    several lengths, with one panel or many at a time, with b copied or not.

    Likely tilings meet likely ways to run them first, so that any number of candidates is a fair
    sample.
    """
    lanes = isa.lanes(dtype)
    if gemm.dot_products(Partition(gemm.m, 1)):
        cuts = (dot_cut(gemm, panels, dtype, isa) for panels in DOT_PANELS)
        yield from (cut for cut in cuts if gemm.m * cut.panels.size <= TILE_VECTORS)
    copies = (True,) if gemm.transpose_b else (False, True)
    together = product(PANEL_BYTES, (True, False), (False, True), (None,), copies)
    in_pieces = product((None,), (False,), (False,), PIECES, copies)
    ways = [*together, *in_pieces]
    tilings = tilings_by_cost(gemm, dtype, isa)[:TILINGS]
    pairs = product(range(len(tilings)), range(len(ways)))
    for i, j in sorted(pairs, key=lambda pair: pair[0] + 2 * pair[1]):
        row_tiles, panels = tilings[i]
        panel_bytes, many, by_rows, pieces, copied = ways[j]
        row = panels.size * lanes * DTYPE_BYTES[dtype]
        if pieces is not None:
            if row_tiles.count * panels.count * pieces > MOST_PIECES or gemm.k < pieces * STEPS:
                continue
            blocks = Partition(gemm.k, pieces)
        else:
            count = -(-gemm.k * row // panel_bytes) if panel_bytes else 1
            blocks = Partition(gemm.k, min(count, gemm.k))
        group = panels_at_a_time(blocks, panels) if many else 1
        apart = pieces is not None
        cut = GemmCut(
            row_tiles, panels, blocks, group, by_rows, apart, copied, dtype, lanes, shared(gemm)
        )
        if cut.copied_bytes <= COPIED_BYTES:
            yield cut
