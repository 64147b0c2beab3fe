"""What `forward` reads instead of parameters and buffers, made of them by an entry of its own:
again whenever they may have changed, and no more often.
"""

from __future__ import annotations

import sys
from functools import cache
from typing import TYPE_CHECKING

from noeira.ir.states import BUFFERS, PARAMS
from noeira.ir.types import TensorType
from noeira.runtime.store import Store, aligned_zeros

if TYPE_CHECKING:
    import numpy as np

    from noeira.runtime.entry_point import EntryPoint


class Prepared:
    """Whether what was made of the arrays of a store is still what would be made of them.

    A store counts the times that somebody was given its arrays, or an entry changed them. Who has
    kept a view writes to it at any time, and nobody is told: as long as one is held, everything is
    made anew for each call.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        # The count of the store when all was made; None if that says nothing.
        self.made_at: int | None = None

    def refresh(self, entry: EntryPoint) -> None:
        """Call the entry that makes it, if it must be. Used by whoever holds the store's lock."""
        now = self.store.changes
        if self.made_at != now:
            self.made_at = None
            entry.run()
            held = any(is_held(self.store.memory[name]) for name in self.read())
            self.made_at = None if held else now

    def read(self) -> tuple[str, ...]:
        """The states that it is made of."""
        return tuple(name for name in (PARAMS, BUFFERS) if name in self.store.memory)


def is_held(array: np.ndarray) -> bool:
    """Whether anybody has a view of an array of a store: told by Python's count of references to
    the owner of its bytes, to which every view refers.
    """
    if not hasattr(sys, "getrefcount"):
        return True
    return sys.getrefcount(array.base) > unheld()


@cache
def unheld() -> int:
    """The references that there are to the owner of the bytes of an array without views: counted,
    since versions of Python differ in what they count.
    """
    array = aligned_zeros(TensorType("f32", (4,)))
    return sys.getrefcount(array.base)
