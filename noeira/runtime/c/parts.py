"""A unit compiled in parts at the same time, and linked with what another unit has built already.

Only a faster way to what the plain command makes: where it does not apply or fails, that is run.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from noeira.codegen.source import Source
from noeira.log import log
from noeira.runtime.build.cache_entry import CacheEntry
from noeira.runtime.build.process import first_lines, run, run_all
from noeira.runtime.c.compiler import Compiler
from noeira.runtime.threads import processor_count

LISTING = "parts.json"


@dataclass(frozen=True)
class Object:
    """An object file of a unit, and the digests of the kernels in it by function."""

    name: str
    kernels: Mapping[str, str]
    data: bytes


def objects_of(entry: CacheEntry | None) -> list[Object]:
    """The object files in a cache entry."""
    if entry is None or LISTING not in entry.files:
        return []
    listed = json.loads(entry.read(LISTING))
    return [Object(name, kernels, entry.read(name)) for name, kernels in listed.items()]


def entry_files(objects: Sequence[Object]) -> dict[str, bytes]:
    """The files from which `objects_of` reads them."""
    listing = json.dumps({one.name: dict(one.kernels) for one in objects}, indent=1)
    return {LISTING: listing.encode(), **{one.name: one.data for one in objects}}


def build_in_parts(
    source: Source,
    compiler: Compiler,
    folder: Path,
    library: str,
    earlier: CacheEntry | None,
    seconds: float,
) -> list[Object] | None:
    """Makes the library in a folder, and gives the objects of its own; None, and no library, if
    parts are not worth while or do not work.
    """
    if source.sections is None or sys.platform != "linux":
        return None
    from noeira.codegen.c.parts import parts

    known = objects_of(earlier)
    built = {name: digest for one in known for name, digest in one.kernels.items()}
    work = parts(source.sections, processor_count(), built)
    if not work:
        return None
    needed = {name: s.digest for s in source.sections.kernels for name in s.entered}
    used = [one for one in known if one.kernels.items() & needed.items()]
    for one in used:
        (folder / f"earlier_{one.name}").write_bytes(one.data)
    for number, part in enumerate(work):
        (folder / f"part{number}.c").write_text(part.text, encoding="utf-8")
    objects = [f"part{number}.o" for number in range(len(work))]
    commands = [compiler.part_command(f"{name[:-2]}.c", name) for name in objects]
    linked = [*objects, *(f"earlier_{one.name}" for one in used)]
    results = run_all(commands, folder, seconds)
    if not any(status for status, _ in results):
        results = [run(compiler.link_command(linked, library), folder, seconds)]
    message = next((text for status, text in results if status), None)
    if message is not None:
        log("info", "the unit of %s is built as a whole: %s", source.name, first_lines(message, 5))
        return None
    return [
        Object(name, part.kernels, (folder / name).read_bytes())
        for name, part in zip(objects, work, strict=True)
        if part.kernels
    ]
