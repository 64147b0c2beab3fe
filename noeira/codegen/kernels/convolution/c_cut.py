"""How convolutions are cut in C as products of matrices of patches: the cut, and what follows.

Of a walk's matrix of patches a thread copies a block, as many rows as some tiles have by as many
columns as a block of k: each panel of the other factor then goes through all of these tiles. The
sums of a tile stay in registers over a block of k; those of several blocks are added in order, in
the thread's own memory. So the bits of an element do not depend on which thread makes it, nor on
how many there are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from noeira.codegen.cut import option


@dataclass(frozen=True, kw_only=True)
class PatchCut:
    """tile: rows of a tile, vectors: of a panel, depth: steps of k in a block, each at most; block:
    tiles whose part of the matrix of patches is copied at a time; parts: into which panels are
    divided, for threads to share; slots: into which steps of k are divided for that, whose sums are
    then added in a stage `total`; pack: whether the other factor is first copied panel by panel, in
    a stage `pack`; split: whether threads share the work. lanes: of a vector.
    """

    tile: int = option(stage="direct")
    vectors: int = option(stage="direct")
    block: int = option(stage="direct")
    depth: int = option(stage="direct")
    parts: int = option(1, stage="direct")
    slots: int = option(1, stage="direct")
    pack: bool = option(False, stage="direct")
    split: bool = option(False, stage="direct")
    lanes: int = 0
    by_channels: ClassVar[bool] = False
