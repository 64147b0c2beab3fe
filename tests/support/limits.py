"""Small values of the numbers by which targets choose how kernels are taken: small samples are then
taken in all the stages and turns that large shapes get.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from unittest.mock import patch

import noeira.codegen

Limits = Mapping[str, int]
CODEGEN = "noeira.codegen."

# For C: every sample is shared by threads and taken in all its stages.
C_SMALL: Limits = {
    "SPLIT_ELEMENTS": 2,
    "STREAM_BYTES": 400,
    "LONG_ROW_BYTES": 256,
    "SUM_CHUNK": 64,
    "COLUMN_ROWS": 8,
    "COLUMN_CHUNK_ROWS": 6,
    "COLUMN_VECTORS": 1,
    "COLUMN_CHUNK_VECTORS": 2,
}
# For CUDA: samples are taken in several stages, by a few blocks in turns.
CUDA_SMALL: Limits = {
    "BLOCK": 64,
    "BLOCKS_EACH": 3,
    "LONE_THREADS": 0,
    "SUM_ALONE": 100,
    "SUM_CHUNK": 128,
    "COLUMN_ROWS": 16,
    "COLUMN_CHUNK_ROWS": 12,
    "PIECE_BLOCK": 8,
    "PIECE": 64,
    "DISTANCES": 3,
}
# And rows by blocks, larger than they are, that take them twice.
CUDA_BLOCKS: Limits = {**CUDA_SMALL, "WARP_BYTES": 16, "HELD_BYTES": 2}


@contextmanager
def limited(language: str, limits: Limits) -> Iterator[None]:
    """Other values of the constants of these names, in all modules of the code generation that know
    them: those of CUDA have `cuda` in their names.
    """
    for found in pkgutil.walk_packages(noeira.codegen.__path__, CODEGEN):
        importlib.import_module(found.name)
    modules = [
        module
        for name, module in tuple(sys.modules.items())
        if name.startswith(CODEGEN) and ("cuda" in name) == (language == "cuda")
    ]
    with ExitStack() as stack:
        for name, limit in limits.items():
            owners = [module for module in modules if name in vars(module)]
            assert owners, f"there is no {name} in {CODEGEN}* for {language}"
            for module in owners:
                stack.enter_context(patch.object(module, name, limit))
        yield
