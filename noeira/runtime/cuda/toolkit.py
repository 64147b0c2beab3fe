"""Where NVIDIA's compilers and tools are looked for: Python's packages, and installed toolkits."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from noeira.disk import children
from noeira.errors import CompilerError
from noeira.runtime.build.compiler_search import which
from noeira.runtime.build.process import run

HOMES = ("CUDA_HOME", "CUDA_PATH")
STANDARD = ("/usr/local/cuda", "/opt/cuda", "/usr/lib/cuda")
ASK_SECONDS = 60


def wheel_folders() -> Iterator[Path]:
    """The folders of NVIDIA's packages for Python: `nvidia/cu13` has what came for CUDA 13 in one,
    older packages have one each.
    """
    for folder in dict.fromkeys(sys.path):
        # The newest first: cu14 before cu13.
        yield from newest_first(children(Path(folder or ".", "nvidia")))


def toolkits() -> Iterator[Path]:
    """The installed toolkits: what the environment names, the standard folders, that of nvcc."""
    named = [Path(text) for name in HOMES if (text := os.environ.get(name, "").strip())]
    versions = [path for path in children(Path("/usr/local")) if path.name.startswith("cuda-")]
    seen = set[str]()
    for folder in [*named, *map(Path, STANDARD), *newest_first(versions)]:
        real = os.path.realpath(folder)
        if os.path.isdir(real) and real not in seen:
            seen.add(real)
            yield folder
    program = which("nvcc")
    folder = None if program is None else toolkit_of(program)
    if folder is not None and os.path.realpath(folder) not in seen:
        yield folder


def newest_first(paths: list[Path]) -> list[Path]:
    """Paths by the numbers in their names, the largest first."""

    def numbers(path: Path) -> tuple[list[int], str]:
        return [int(number) for number in re.findall(r"\d+", path.name)], path.name

    return sorted(paths, key=numbers, reverse=True)


@lru_cache(maxsize=8)
def toolkit_of(nvcc: str) -> Path | None:
    """The folder of the toolkit behind a program `nvcc`, which may be a script elsewhere that only
    calls it; None if it does not tell.
    """
    folder = Path(os.path.realpath(nvcc)).parent.parent
    if (folder / "nvvm").is_dir():
        return folder
    # What it would run, it lists after the folders it works with; nothing is compiled.
    words = (nvcc, "--dryrun", "-cubin", "-x", "cu", os.devnull)
    try:
        _, text = run(words, Path.cwd(), ASK_SECONDS)
    except CompilerError:
        return None
    found = re.search(r"^#\$ TOP=(.+)$", text, flags=re.MULTILINE)
    return None if found is None else Path(os.path.normpath(found[1].strip()))


def find_program(name: str) -> str | None:
    """The path of one of NVIDIA's tools: on PATH, in a toolkit, or in Python's packages; None if it
    is nowhere.
    """
    found = which(name)
    if found is not None:
        return found
    places = [folder / "bin" / name for folder in wheel_folders()]
    for path in (*places, *(folder / "bin" / name for folder in toolkits())):
        if os.access(path, os.X_OK) and path.is_file():
            return str(path)
    return None
