"""How C runs a convolution as a product of patches."""

from __future__ import annotations

from noeira.codegen.cut import written
from noeira.codegen.kernels.convolution.c_cut import PatchCut
from noeira.codegen.kernels.convolution.c_plan import PatchPlan
from noeira.codegen.kernels.convolution.c_product import PatchProduct
from noeira.codegen.scratch import Room
from noeira.errors import VerifyError
from noeira.ir.plan import Stage

# Bytes that a thread may have of its own: they have to have room on its stack.
OWN_BYTES = 1 << 21
# Sums of a tile: more would only be spilt, and be long code.
TILE_VECTORS = 64


def direct_stages(product: PatchProduct, cut: PatchCut) -> tuple[Stage, ...]:
    """The stages of a cut."""
    options = (("split", True),) if cut.split else ()
    first = (Stage("pack", options),) if cut.pack else ()
    last = (Stage("total", options),) if PatchPlan(product, cut).apart else ()
    return (*first, Stage("direct", written(cut, "direct")), *last)


def direct_scratch(product: PatchProduct, cut: PatchCut) -> tuple[Room, ...]:
    """What its stages share."""
    packed = (Room("packed", product.dtype, product.packed_size),) if cut.pack else ()
    partial = Room("partial", product.dtype, cut.slots * product.made)
    return (*packed, partial) if PatchPlan(product, cut).apart else packed


def check_direct(product: PatchProduct, cut: PatchCut) -> None:
    """Raises VerifyError for a cut that the template cannot make."""
    limits = {
        "tile": product.most_rows,
        "vectors": product.width,
        "depth": max(product.most_steps, 1),
    }
    plan = PatchPlan(product, cut)
    for name, most in limits.items():
        if getattr(cut, name) > most:
            raise VerifyError(f"direct: {name} must be a whole number from 1 to {most}")
    if cut.parts > plan.panels.count:
        raise VerifyError(f"direct: parts must be at most {plan.panels.count}, as there are panels")
    blocks = plan.walks[0].blocks if product.turned else 1
    if cut.slots > blocks:
        raise VerifyError(f"direct: slots must be at most {blocks} here")
    read_otherwise = product.crossed or product.rest or (product.bundle > 1 and not product.turned)
    if not cut.pack and read_otherwise:
        raise VerifyError("direct: pack must be true, since the factor is read otherwise")
    if cut.tile * cut.vectors > TILE_VECTORS:
        raise VerifyError(
            f"direct: a tile of {cut.tile} rows by {cut.vectors} vectors has more than "
            f"{TILE_VECTORS} sums: a smaller tile, or fewer vectors"
        )
    if plan.own_bytes > OWN_BYTES:
        raise VerifyError(
            f"direct: a thread has {plan.own_bytes:,} bytes of its own, at most {OWN_BYTES:,} have "
            "room on a stack: a smaller block or depth, a smaller tile, fewer vectors, more parts"
        )
