"""A unit compiled in parts at the same time, and linked with parts that other units have already.

Only a faster way to what the plain command makes: where it does not apply or fails, that is run.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from noeira.codegen.source import Source
from noeira.log import log
from noeira.runtime.build.cache_entry import digest_of
from noeira.runtime.build.compiled import Compiled, Made
from noeira.runtime.build.process import first_lines, run, run_all
from noeira.runtime.c.compiler import Compiler
from noeira.runtime.threads import processor_count

if TYPE_CHECKING:
    from noeira.codegen.c.parts import Part


def build_in_parts(
    source: Source,
    compiler: Compiler,
    folder: Path,
    library: str,
    compiled: Compiled,
    seconds: float,
) -> Made | None:
    """The library, made in a folder, with the object files of this unit alone, each named by what
    it was made of; None if parts do not work here.
    """
    if source.sections is None or sys.platform != "linux":
        return None
    from noeira.codegen.c.parts import parts, wanted

    known = {digest: compiled.find(digest) for digest in wanted(source.sections)}
    found = {digest: place for digest, place in known.items() if place is not None}
    earlier = {name: entry.read(name) for entry, name in found.values()}
    work = {object_name(part): part for part in parts(source.sections, processor_count(), found)}
    for name, data in earlier.items():
        (folder / name).write_bytes(data)
    for name, part in work.items():
        (folder / f"{name}.c").write_text(part.text, encoding="utf-8")
    commands = [compiler.part_command(f"{name}.c", name) for name in work]
    results = run_all(commands, folder, seconds)
    if not any(status for status, _ in results):
        results = [run(compiler.link_command([*work, *earlier], library), folder, seconds)]
    message = next((text for status, text in results if status), None)
    if message is not None:
        log("info", "the unit of %s is built as a whole: %s", source.name, first_lines(message, 5))
        return None
    kept = {name: part for name, part in work.items() if part.holds}
    return Made(
        {name: (folder / name).read_bytes() for name in [library, *kept]},
        {digest: name for name, part in kept.items() for digest in part.holds},
    )


def object_name(part: Part) -> str:
    """The object file of a part: what bears the same name is the same."""
    return f"part-{digest_of(part.text)[:32]}.o"
