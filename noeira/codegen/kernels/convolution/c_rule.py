"""The static rule that cuts a convolution: by shape alone."""

from __future__ import annotations

from dataclasses import replace

from noeira.codegen.c.isa import ISA
from noeira.codegen.kernels.convolution.c_cut import PatchCut
from noeira.codegen.kernels.convolution.c_plan import PatchPlan
from noeira.codegen.kernels.convolution.c_product import PatchProduct
from noeira.codegen.kernels.gemm.c_rule import SHARED_FLOPS, tilings_by_cost
from noeira.codegen.kernels.gemm.product import Gemm
from noeira.codegen.rows import pieces_of

# A copied block of the matrix of patches has a quarter of the L2 cache, which is larger where
# vectors are; a thread works on at most so many rows at a time.
COPIED_VECTORS = 4096
MOST_ROWS = 256
# A block of steps is no longer, unless all of them are not much more.
LONGEST_BLOCK = 1024
WHOLE_BLOCK = 1536
# Steps of a block where these are places.
PLACES = 256
# Fewer tiles than that are too few to share: then threads share columns, or steps, too.
FEW_UNITS = 16
# The other factor is copied first where rows are enough that it pays.
PACKING_ROWS = 64
PACKING_PLACES = 384


def choose_patches(product: PatchProduct, isa: ISA) -> PatchCut:
    """The cut of a product of patches."""
    tile, vectors = tile_of(product, isa)
    if product.turned:
        depth = min(PLACES, product.most_steps)
    elif product.most_steps <= WHOLE_BLOCK:
        depth = max(product.most_steps, 1)
    else:
        depth = pieces_of(product.most_steps, pieces_of(product.most_steps, LONGEST_BLOCK))
    packs = product.most_rows >= PACKING_ROWS or product.crossed or product.bundle > 1
    if product.turned:
        packs = product.width > vectors and product.most_rows >= PACKING_PLACES
    packs = packs or product.rest > 0
    split = product.flops >= SHARED_FLOPS
    cut = PatchCut(
        tile=tile,
        vectors=vectors,
        block=1,
        depth=depth,
        pack=packs,
        split=split,
        lanes=product.lanes,
    )
    return shared(product, with_block(product, cut))


def tile_of(product: PatchProduct, isa: ISA) -> tuple[int, int]:
    """Rows and vectors of a tile, of least estimated work."""
    steps = max(product.most_steps, 1)
    gemm = Gemm(product.most_rows, product.columns, steps, "", "", "")
    rows, panels = tilings_by_cost(gemm, product.dtype, isa, even=False)[0]
    return rows.size, panels.size


def with_block(product: PatchProduct, cut: PatchCut) -> PatchCut:
    """The same with as many tiles at a time as have room."""
    room = COPIED_VECTORS * product.lanes
    row = PatchPlan(product, cut).copy_row if not product.turned else cut.depth
    rows = min(max(room // row, 1), MOST_ROWS)
    return replace(cut, block=max(rows // cut.tile, 1))


def shared(product: PatchProduct, cut: PatchCut) -> PatchCut:
    """The same, divided further where threads have too few tiles to share."""
    plan = PatchPlan(product, cut)
    units = sum(walk.units for walk in plan.walks)
    if not cut.split or units >= FEW_UNITS:
        return cut
    wanted = pieces_of(FEW_UNITS, units)
    if product.turned:
        return replace(cut, slots=min(wanted, plan.walks[0].blocks))
    return replace(cut, parts=min(wanted, plan.panels.count))
