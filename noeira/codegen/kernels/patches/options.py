"""The options of a product of patches, as they stand in a plan."""

from __future__ import annotations

from dataclasses import dataclass

from noeira.codegen.cut import option

# The stage that they are written in.
STAGE = "direct"


@dataclass(frozen=True, kw_only=True)
class PatchOptions:
    """tile: rows of a tile, vectors: of a panel, depth: steps of a block, at most; block: tiles
    whose part of the matrix of patches is copied at a time; parts: into which panels are divided,
    for threads to share; slots: into which blocks of steps are divided for that, whose sums are
    then added in a stage `total`; pack: whether the other factor is first copied panel by panel, in
    a stage `pack`; split: whether threads share the work; bundle: groups that are one product.
    """

    tile: int = option(stage=STAGE)
    vectors: int = option(stage=STAGE)
    block: int = option(stage=STAGE)
    depth: int = option(stage=STAGE)
    parts: int = option(1, stage=STAGE)
    slots: int = option(1, stage=STAGE)
    pack: bool = option(False, stage=STAGE)
    split: bool = option(False, stage=STAGE)
    bundle: int = option(1, stage=STAGE)
