"""The static rule that cuts a product of patches, by shape alone; and what is read of a plan."""

from __future__ import annotations

from dataclasses import replace

from noeira.codegen.c.isa import ISA
from noeira.codegen.cut import check_stages, read_cut
from noeira.codegen.kernels.gemm.c_rule import SHARED_FLOPS, tilings_by_cost
from noeira.codegen.kernels.gemm.product import Gemm
from noeira.codegen.kernels.patches.options import STAGE, PatchOptions
from noeira.codegen.kernels.patches.patch_cut import PatchCut
from noeira.codegen.kernels.patches.product import PatchProduct, bundled, bundles, product_of
from noeira.codegen.rows import pieces_of
from noeira.errors import VerifyError
from noeira.ir.geometry import Geometry
from noeira.ir.plan import Stage
from noeira.ir.types import DTYPE_BYTES

# A copied block of the matrix of patches has a quarter of the L2 cache, which is larger where
# vectors are; a thread works on at most so many rows at a time.
COPIED_VECTORS = 4096
MOST_ROWS = 256
# So many vectors of sums go from a block of steps to the next, at most.
SUMS_VECTORS = 8192
# A block of steps is no longer, unless all of them are not much more.
LONGEST_BLOCK = 1024
WHOLE_BLOCK = 1536
# Steps of a block where these are places.
PLACES = 256
# Fewer tiles than that are too few to share: then threads share columns, or steps, too.
FEW_UNITS = 16
# The other factor is copied first where it is large and rows are enough that it pays.
PACKING_ROWS = 1024
PACKING_BYTES = 1 << 18
PACKING_PLACES = 384
# Bytes that a thread may have of its own: they have to have room on its stack.
OWN_BYTES = 1 << 21
# Sums of a tile: more would only be spilt, and be long code.
TILE_VECTORS = 64


def choose(
    role: str,
    geometry: Geometry,
    dtype: str,
    isa: ISA,
    headed: bool = False,
    apart: bool = False,
) -> PatchCut:
    """The cut for one of the three ops; headed: whether the image is made by a head; apart: whether
    no number of a group may be multiplied by zeros for another.
    """
    lanes = isa.lanes(dtype)
    product = product_of(role, geometry, dtype, lanes, headed)
    if product.turned or not apart:
        bundle = bundled(product.groups, product.columns, lanes)
        product = product_of(role, geometry, dtype, lanes, headed, bundle)
    tile, vectors = tile_of(product, isa)
    if product.turned:
        depth = min(PLACES, product.most_steps)
    elif product.most_steps <= WHOLE_BLOCK:
        depth = max(product.most_steps, 1)
    else:
        depth = pieces_of(product.most_steps, pieces_of(product.most_steps, LONGEST_BLOCK))
    options = PatchOptions(
        tile=tile,
        vectors=vectors,
        block=1,
        depth=depth,
        pack=packs(product, vectors),
        split=product.flops >= SHARED_FLOPS,
        bundle=product.bundle,
    )
    return fitting(shared(with_block(PatchCut(product, options))))


def packs(product: PatchProduct, vectors: int) -> bool:
    """Whether the other factor is copied: if it must, or rows and it are so large that it pays."""
    if product.turned:
        pays = product.width > vectors and product.most_rows >= PACKING_PLACES
    else:
        bytes = product.packed_size * DTYPE_BYTES[product.dtype]
        pays = product.most_rows >= PACKING_ROWS and bytes >= PACKING_BYTES
    return pays or product.must_pack


def tile_of(product: PatchProduct, isa: ISA) -> tuple[int, int]:
    """Rows and vectors of a tile, of least estimated work."""
    steps = max(product.most_steps, 1)
    gemm = Gemm(product.most_rows, product.columns, steps, "", "", "")
    rows, panels = tilings_by_cost(gemm, product.dtype, isa, even=False)[0]
    return rows.size, panels.size


def with_block(cut: PatchCut) -> PatchCut:
    """The same with as many tiles at a time as have room."""
    product, tile = cut.product, cut.options.tile
    row = cut.options.depth if product.turned else cut.copy_row
    rows = min(max(COPIED_VECTORS * product.lanes // row, 1), MOST_ROWS)
    if cut.chained:
        rows = min(rows, max(SUMS_VECTORS * product.lanes // cut.part_width, 1))
    most = max(walk.tiles for walk in cut.walks)
    return with_options(cut, block=min(max(rows // tile, 1), most))


def shared(cut: PatchCut) -> PatchCut:
    """The same, divided further where threads have too few tiles to share."""
    units = sum(walk.units for walk in cut.walks)
    if not cut.options.split or units >= FEW_UNITS:
        return cut
    wanted = pieces_of(FEW_UNITS, units)
    if cut.product.turned:
        return with_options(cut, slots=min(wanted, cut.walks[0].blocks))
    return with_options(cut, parts=even_parts(cut.panels.count, wanted))


def even_parts(panels: int, wanted: int) -> int:
    """The number nearest to so many that divides panels: parts that differ leave threads waiting
    for each other.
    """
    divisors = [parts for parts in range(1, panels + 1) if panels % parts == 0]
    return min(divisors, key=lambda parts: abs(parts - wanted))


def fitting(cut: PatchCut) -> PatchCut:
    """The same in more parts, where what a thread has of its own would have no room."""
    while cut.own_bytes > OWN_BYTES and cut.options.parts < cut.panels.count:
        cut = with_options(cut, parts=min(2 * cut.options.parts, cut.panels.count))
    return cut


def with_options(cut: PatchCut, **options: int) -> PatchCut:
    """The same with other options."""
    return replace(cut, options=replace(cut.options, **options))


def read(
    role: str,
    geometry: Geometry,
    dtype: str,
    isa: ISA,
    headed: bool,
    stages: tuple[Stage, ...],
) -> PatchCut:
    """The cut that stages describe. Raises VerifyError if they do not fit the shape."""
    options, lanes = read_cut(PatchOptions, stages), isa.lanes(dtype)
    product = product_of(role, geometry, dtype, lanes, headed)
    if not bundles(options.bundle, product.groups, product.columns, lanes):
        most = bundled(product.groups, product.columns, lanes)
        raise VerifyError(
            f"{STAGE}: bundle must divide {product.groups} groups and be at most {most}, since the "
            f"{product.columns} columns of each have to have room in a vector of {lanes}"
        )
    product = product_of(role, geometry, dtype, lanes, headed, options.bundle)
    cut = PatchCut(product, options)
    check(product, cut)
    check_stages(PatchOptions, stages, cut.stages())
    return cut


def check(product: PatchProduct, cut: PatchCut) -> None:
    """Raises VerifyError for a cut that the template cannot make."""
    options = cut.options
    limits = {
        "tile": product.most_rows,
        "vectors": product.width,
        "depth": max(product.most_steps, 1),
        "parts": cut.panels.count,
        "slots": cut.walks[0].blocks if product.turned else 1,
    }
    for name, most in limits.items():
        if getattr(options, name) > most:
            raise VerifyError(f"{STAGE}: {name} must be a whole number from 1 to {most}")
    if not options.pack and product.must_pack:
        raise VerifyError(f"{STAGE}: pack must be true, since the factor lies otherwise")
    if options.tile * options.vectors > TILE_VECTORS:
        raise VerifyError(
            f"{STAGE}: a tile of {options.tile} rows by {options.vectors} vectors has more than "
            f"{TILE_VECTORS} sums: a smaller tile, or fewer vectors"
        )
    if cut.own_bytes > OWN_BYTES:
        raise VerifyError(
            f"{STAGE}: a thread has {cut.own_bytes:,} bytes of its own, at most {OWN_BYTES:,} have "
            "room on a stack: a smaller block, depth or tile, fewer vectors, more parts"
        )
