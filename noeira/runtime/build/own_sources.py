"""The digest of noeira's own sources: no kernel outlives the compiler that made it."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

from noeira.runtime.build.cache import Cache, open_cache
from noeira.runtime.build.cache_entry import digest_of

PACKAGE = str(Path(__file__).parents[2])


def own_digest(cache: Cache | None = None) -> str:
    """64 hexadecimal digits over every `.py` and `.j2` file of noeira, the same for the life of the
    process.

    The contents are hashed only when a name, a size or a time of change is new; else the last
    digest is recalled. If a source was changed after this process started, the modules in memory
    may be older than the files: then the digest is one that no other process has, and nothing is
    remembered under the name of sources that did not make it.
    """
    if _known:
        return _known[0]
    cache = cache or open_cache()
    files = sorted(source_files(PACKAGE))
    looks = digest_of("own", PACKAGE, repr(files))
    digest = cache.recall(looks)
    if digest is None:
        digest = digest_of(
            *(part for name, *_ in files for part in (name[len(PACKAGE) :], read(name)))
        )
        cache.remember(looks, digest)
    if max(changed for _, _, changed, _ in files) / 1e9 > STARTED:
        digest = digest_of(digest, str(os.getpid()), os.urandom(16))
    _known.append(digest)
    return digest


_known: list[str] = []


def source_files(folder: str) -> Iterator[tuple[str, int, int, int]]:
    """Name, size, and times of the last change of content and of status (ns) of every source below
    a folder.

    The time of the last change of status is there because installers and archives can set the other
    one, not it.
    """
    with os.scandir(folder) as found:
        for item in found:
            if item.name.endswith((".py", ".j2")):
                status = item.stat()
                yield item.path, status.st_size, status.st_mtime_ns, status.st_ctime_ns
            elif item.is_dir() and item.name != "__pycache__":
                yield from source_files(item.path)


def read(name: str) -> bytes:
    """The content of a file."""
    return Path(name).read_bytes()


def process_start() -> float:
    """When this process started, in seconds since 1970; where the system does not tell, now."""
    try:
        fields = Path("/proc/self/stat").read_bytes().rpartition(b")")[2].split()
        # Field 22 of proc(5): clock ticks between the system's start and the process's.
        after_boot = int(fields[19]) / os.sysconf("SC_CLK_TCK")
        return time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) + after_boot
    except (OSError, AttributeError, ValueError, IndexError):
        return time.time()


# Read at import, so that a forked process keeps the earlier time of the one that imported the
# modules.
STARTED = process_start()
