"""Small values of the numbers by which targets choose how kernels are taken: small samples are then
taken in all the stages and turns that large shapes get.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from types import ModuleType
from unittest.mock import patch

import noeira.codegen.c.anchor as c_anchor
import noeira.codegen.c.row_total as c_row_total
import noeira.codegen.c.total as c_total
from noeira.codegen.cuda import anchor, row, row_total, total
from noeira.codegen.kernels.adaptive_clip import cuda as adaptive_clip
from noeira.codegen.kernels.column import c as c_column
from noeira.codegen.kernels.column import cuda as column
from noeira.codegen.kernels.shuffle import cuda as shuffle

Limits = Mapping[ModuleType, Mapping[str, int]]

# For C: every sample is shared by threads and taken in all its stages.
C_SMALL: Limits = {
    c_anchor: {"SPLIT_ELEMENTS": 2, "STREAM_BYTES": 400},
    c_row_total: {"LONG_ROW_BYTES": 256},
    c_total: {"SUM_CHUNK": 64},
    c_column: {
        "COLUMN_ROWS": 8,
        "COLUMN_CHUNK_ROWS": 6,
        "COLUMN_VECTORS": 1,
        "COLUMN_CHUNK_VECTORS": 2,
    },
}
# For CUDA: samples are taken in several stages, by a few blocks in turns.
CUDA_SMALL: Limits = {
    anchor: {"BLOCK": 64, "BLOCKS_EACH": 3},
    row_total: {"LONE_THREADS": 0},
    total: {"SUM_ALONE": 100, "SUM_CHUNK": 128},
    adaptive_clip: {"WARP_PIECE": 50},
    column: {"COLUMN_ROWS": 16, "COLUMN_CHUNK_ROWS": 12},
    shuffle: {"BLOCK": 32, "PIECE_BLOCK": 8, "PIECE": 64, "DISTANCES": 3},
}
# And rows by blocks, larger than they are, that take them twice.
CUDA_BLOCKS: Limits = {**CUDA_SMALL, row: {"WARP_BYTES": 16, "HELD_BYTES": 2}}


@contextmanager
def limited(limits: Limits) -> Iterator[None]:
    """Rules have these limits instead of their own."""
    with ExitStack() as stack:
        for module, values in limits.items():
            for name, value in values.items():
                stack.enter_context(patch.object(module, name, value))
        yield
