"""Where the units of sweeps are kept: a folder of the user's cache (or UNIT_BUILD_CACHE), by their
whole text, compiler and flags, so that later runs of the tests build only what has changed.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

from platformdirs import user_cache_path

from noeira.runtime.build.cache import Cache


@cache
def unit_cache() -> Cache:
    """The cache of units."""
    chosen = os.environ.get("UNIT_BUILD_CACHE")
    return Cache(Path(chosen) if chosen else user_cache_path("noeira-tests") / "units")
