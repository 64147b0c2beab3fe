"""Builds the fake driver: a libcuda.so.1 of the parts in this folder and of stubs for all else."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

HERE = Path(__file__).parent
FLAGS = ["-std=c++17", "-O1", "-g0", "-Wall", "-Wextra", "-Werror", "-fPIC"]
NOT_SUPPORTED = 801


def sources() -> list[Path]:
    """The files the driver is made of, this one included."""
    return sorted([*HERE.glob("*.cpp"), *HERE.glob("*.hpp"), Path(__file__)])


def stubs(include: Path) -> str:
    """C text that defines every driver symbol weakly, answering CUDA_ERROR_NOT_SUPPORTED.

    Names are taken from the headers' whole text, old versions and comments included: one too many
    does no harm, one too few and pycuda does not load.
    """
    headers = [include / "cuda.h", include / "cudaProfiler.h"]
    names = {name for path in headers for name in re.findall(r"\bcu[A-Z]\w*", path.read_text())}
    body = f"(void) {{ return {NOT_SUPPORTED}; }}"
    return "".join(f"__attribute__((weak)) int {name}{body}\n" for name in sorted(names))


def build(include: Path, folder: Path) -> Path:
    """Builds libcuda.so.1, and libcuda.so beside it for the linker, in `folder`; gives `folder`.

    `include` has cuda.h and cudaProfiler.h. Needs g++ and gcc. Raises CalledProcessError, with the
    compiler's words in `stderr`, if that fails.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "stubs.c").write_text(stubs(include))
    parts = [str(path) for path in sources() if path.suffix == ".cpp"]
    run(["gcc", "-O1", "-fPIC", "-fno-builtin", "-c", "stubs.c", "-o", "stubs.o"], folder)
    library = ["-shared", "-Wl,-soname,libcuda.so.1", "-o", "libcuda.so.1"]
    run(["g++", *FLAGS, f"-I{include}", *parts, "stubs.o", *library, "-ldl"], folder)
    link = folder / "libcuda.so"
    link.unlink(missing_ok=True)
    link.symlink_to("libcuda.so.1")
    return folder


def run(command: list[str], folder: Path) -> None:
    """Runs a command quietly in a folder. Raises CalledProcessError."""
    subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)


def compiler_missing() -> str:
    """What a build lacks, or nothing."""
    lacking = [name for name in ("gcc", "g++") if not shutil.which(name)]
    return f"{' and '.join(lacking)} not found" if lacking else ""
