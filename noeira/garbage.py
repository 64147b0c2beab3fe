"""The collector of garbage, held up while much is made and little of it dropped."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def uncollected() -> Iterator[None]:
    """Look for no garbage meanwhile, unless nobody does anyway.

    A compile makes hundreds of thousands of objects and keeps most of them to its end: looking
    through them again and again takes a third of the time that a deep network's graphs take.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
