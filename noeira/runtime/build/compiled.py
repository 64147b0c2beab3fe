"""What was compiled before, found again by the digest of what it was made of.

A unit is seldom new in all its parts: another learning rate changes the plans that it carries, not
its kernels. So each entry of the cache says which of its files were made of what, and a later unit
takes them from there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from noeira.runtime.build.cache import Cache
from noeira.runtime.build.cache_entry import CacheEntry, digest_of


@dataclass(frozen=True)
class Made:
    """The files of an entry, as made now, and for digests of what later units may want as well the
    file that it became.
    """

    files: Mapping[str, bytes]
    compiled: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Compiled:
    """What a cache has from one compiler with its flags, `key_parts`."""

    cache: Cache
    key_parts: tuple[str, ...]
    read: dict[str, CacheEntry | None] = field(default_factory=dict)

    def find(self, digest: str) -> tuple[CacheEntry, str] | None:
        """The entry and the name of the file that a text of this digest became; None if there is
        none, or no longer.
        """
        key, _, name = (self.cache.recall(self.note(digest)) or "").partition(" ")
        if not key:
            return None
        if key not in self.read:
            self.read[key] = self.cache.get(key)
        entry = self.read[key]
        return (entry, name) if entry is not None and name in entry.files else None

    def remember(self, entry: CacheEntry, compiled: Mapping[str, str]) -> None:
        """Note what files of an entry were made of."""
        for digest, name in compiled.items():
            self.cache.remember(self.note(digest), f"{entry.key} {name}")

    def note(self, digest: str) -> str:
        """The key of the note on a digest."""
        return digest_of("compiled", digest, *self.key_parts)
