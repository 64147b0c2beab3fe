"""`noeira doctor`: what this machine has of what noeira needs, and how to get the rest."""

from __future__ import annotations

import argparse
import os
import platform
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Literal

import noeira
from noeira import config
from noeira.commands.cache import count, megabytes
from noeira.errors import MissingError, NoeiraError
from noeira.runtime.build.cache import Cache

NEEDED = ("numpy", "ml_dtypes", "jinja2", "networkx", "filelock", "platformdirs", "rich")
OPTIONAL = {
    "pooch": "downloading data sets: pip install 'noeira[data]'",
    "pillow": "decoding JPEG images: pip install 'noeira[data]'",
    "matplotlib": "pictures of losses and rooflines: pip install 'noeira[viz]'",
    "tensorboardX": "event files of TensorBoard: pip install 'noeira[tensorboard]'",
    "ziglang": "a C compiler without root: pip install ziglang",
}
CHECK_TEXT = """\
int noeira_doctor(int x);
int noeira_doctor(int x) { return 6 * x; }
"""


@dataclass(frozen=True)
class Finding:
    """One line of the table. `missing` is no fault, `broken` is; `advice` says what to do."""

    state: Literal["ok", "missing", "broken"]
    name: str
    text: str
    advice: str = ""

    def __str__(self) -> str:
        mark = {"ok": "ok", "missing": "--", "broken": "!!"}[self.state]
        indent = "\n" + " " * 18
        lines = [f"{mark}  {self.name:14}{self.text}".rstrip().replace("\n", indent)]
        if self.advice:
            lines.append(indent[1:] + self.advice.replace("\n", indent))
        return "\n".join(lines)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """`noeira doctor` takes no arguments."""


def run(args: argparse.Namespace) -> int:
    """Prints the table; 0 if programs can be built and run, by the reference at least, else 1."""
    broken = False
    for finding in findings():
        print(finding, flush=True)
        broken |= finding.state == "broken"
    return 1 if broken else 0


def findings() -> Iterator[Finding]:
    """Everything that is looked at, in order; never raises."""
    yield Finding("ok", "Python", f"{platform.python_version()}  {sys.executable}")
    yield Finding("ok", "noeira", f"{noeira.__version__}  {Path(noeira.__file__).parent}")
    needed = [*packages()]
    yield from needed
    if any(finding.state == "broken" for finding in needed):
        # The other checks need the packages.
        return
    with unreadable_left_out() as wrong:
        yield from wrong
        yield from unusable_files()
        yield from compilers()
        yield from cuda()
        yield cache_folder()
        yield threads()
        yield mnist()
    yield from optional_packages()


def packages() -> Iterator[Finding]:
    """The packages without which nothing works."""
    for name in NEEDED:
        version = installed(name)
        if version is None:
            yield Finding("broken", name, "not installed", f"pip install {name}")
        else:
            yield Finding("ok", name, version)


def optional_packages() -> Iterator[Finding]:
    """The packages that add something."""
    for name, advice in OPTIONAL.items():
        version = installed(name)
        if version is None:
            yield Finding("missing", name, "not installed", advice)
        else:
            yield Finding("ok", name, version)


def installed(name: str) -> str | None:
    """The version of a package, found without importing it; None if it is not installed."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


@contextmanager
def unreadable_left_out() -> Iterator[list[Finding]]:
    """The settings that cannot be read, and NOEIRA_* variables that are none. The former have their
    defaults in between, so that everything else is looked at as well.
    """
    found, before = list[Finding](), dict(os.environ)
    for setting in config.SETTINGS:
        try:
            setting.read()
        except NoeiraError as error:
            found.append(Finding("broken", "setting", str(error)))
            os.environ.pop(setting.name)
    found += [Finding("missing", "setting", text) for text in config.unknown_settings()]
    try:
        yield found
    finally:
        os.environ.update(before)


def unusable_files() -> Iterator[Finding]:
    """What a compile would find of the files that settings name."""
    from noeira.codegen.choices import chosen_table

    try:
        rows = count(len(chosen_table(None).rows), "row")
    except NoeiraError as error:
        yield Finding("broken", "setting", str(error))
    else:
        if config.CHOICES.read() is not None:
            yield Finding("ok", "choices", f"{config.CHOICES.read()}  {rows}")
    folder = config.DUMP.read()
    if folder is None:
        return
    try:
        there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
        with tempfile.TemporaryFile(dir=there):
            pass
    except OSError as error:
        text = f"NOEIRA_DUMP={folder} cannot be written: {error.strerror or error}"
        yield Finding("broken", "setting", text)
    else:
        yield Finding("ok", "dumps", f"{folder}  receives every stage of every compile")


def compilers() -> Iterator[Finding]:
    """The C compiler, and whether what it builds can be loaded and called."""
    from noeira.codegen.language import C
    from noeira.codegen.source import Source
    from noeira.runtime.build.library import load
    from noeira.runtime.c.compiler import SEARCH, find_compiler
    from noeira.runtime.c.toolchain import CToolchain

    try:
        compiler = find_compiler()
    except NoeiraError as error:
        yield Finding("broken", "C compiler", str(error))
        return
    if compiler is None:
        without = "none: programs run by the reference, which is slow"
        yield Finding("missing", "C compiler", without, SEARCH.advice)
        return
    yield Finding("ok", "C compiler", f"{' '.join(compiler.command)}  {compiler.version}")
    yield Finding("ok", "vectors", f"{compiler.isa.name}, {compiler.isa.vector_bytes} bytes")
    if not compiler.has_threads:
        advice = "CC names another compiler, one that takes -pthread"
        yield Finding("missing", "POSIX threads", "no: programs run on one thread", advice)
    with tempfile.TemporaryDirectory(prefix="noeira-", ignore_cleanup_errors=True) as folder:
        try:
            source = Source(C, "doctor", CHECK_TEXT, "")
            answer = load(CToolchain(compiler, Cache(folder)).build(source)).noeira_doctor(7)
        except NoeiraError as error:
            yield Finding("broken", "a program", str(error))
            return
    if answer == 42:
        yield Finding("ok", "a program", "built, loaded and called")
    else:
        yield Finding("broken", "a program", f"built and called, but gave {answer}, not 42")


def cuda() -> Iterator[Finding]:
    """What CUDA needs, on the CPU and on a GPU; nothing of it is needed for other targets."""
    from noeira.runtime.cuda.compiler import ADVICE as CUDA_ADVICE
    from noeira.runtime.cuda.compiler import find_cuda_compiler
    from noeira.runtime.cuda_cpu.compiler import SEARCH, find_cxx_compiler

    try:
        cxx = find_cxx_compiler()
    except NoeiraError as error:
        yield Finding("missing", "C++ compiler", str(error))
    else:
        if cxx is None:
            yield Finding("missing", "C++ compiler", "none: no target cuda-cpu", SEARCH.advice)
        else:
            text = f"{' '.join(cxx.command)}  {cxx.version}"
            yield Finding(
                "ok", "C++ compiler", text if cxx.check_flags else f"{text}, no check mode"
            )
    compiler = find_cuda_compiler()
    if compiler is None:
        yield Finding("missing", "CUDA compiler", "none: no target cuda", CUDA_ADVICE)
    else:
        archs = ", ".join(compiler.archs)
        yield Finding("ok", "CUDA compiler", f"{compiler.version} for {archs}")
    yield from gpus()


def gpus() -> Iterator[Finding]:
    """pycuda, the driver, and every GPU."""
    from noeira.codegen.cuda.arch import OLDEST, capability_of
    from noeira.runtime.cuda.driver import found_devices
    from noeira.runtime.out_of_memory import gigabytes

    there = {"pycuda": installed("pycuda") or "", "NVIDIA driver": ""}
    try:
        found, missing = found_devices(), None
    except MissingError as error:
        found, missing = [], error
    except NoeiraError as error:
        yield Finding("missing", "GPU", str(error))
        return
    for name, text in there.items():
        if missing is not None and missing.what == name:
            yield Finding("missing", name, missing.text, missing.advice)
            return
        yield Finding("ok", name, text or "there is one")
    if missing is not None:
        yield Finding("missing", missing.what, missing.text, missing.advice)
    for gpu in found:
        text = f"{gpu.name}, {gpu.arch}, {gigabytes(gpu.nbytes)}"
        if capability_of(gpu.arch) < OLDEST.capability:
            older = f"{text}: older than {OLDEST.name}, the oldest that kernels are for"
            yield Finding("missing", f"GPU {gpu.number}", older)
        else:
            yield Finding("ok", f"GPU {gpu.number}", text)


def cache_folder() -> Finding:
    """Where built programs are kept."""
    stats = Cache().stats()
    text = f"{stats.folder}  {count(stats.entries, 'program')}, {megabytes(stats.bytes)}"
    if stats.writable:
        return Finding("ok", "cache", text)
    advice = "programs are built anew in every process; NOEIRA_CACHE names another folder"
    return Finding("missing", "cache", f"{text}, cannot be written", advice)


def threads() -> Finding:
    """How many threads a program uses."""
    from noeira.runtime.threads import thread_count

    chosen = config.THREADS.read()
    return Finding("ok", "threads", f"{thread_count()}" + ("" if chosen is None else "  (chosen)"))


def mnist() -> Finding:
    """Whether the MNIST files are here; downloads nothing."""
    from noeira.datasets.files import failure, failure_note, where
    from noeira.datasets.mnist import FILES, SHIPPED

    places = where(FILES)
    for place in places:
        if not place.missing:
            return Finding("ok", "MNIST", str(place.folder))
    instead = "; the 5,000 images shipped with noeira serve" if SHIPPED.is_file() else ""
    cache = places[-1].folder
    failed = failure(cache)
    tried = (
        f"A download failed: {failed}.\n{failure_note(cache)} keeps it from being tried again for "
        "an hour: remove it to try now.\n"
        if failed
        else ""
    )
    advice = tried + (
        f"Looked in {' and '.join(str(place.folder) for place in places)}.\n"
        "It is downloaded at first use (pip install 'noeira[data]'), or NOEIRA_DATA names\n"
        f"a folder that has, in {FILES.folder}/,\n"
        + "\n".join(f"  {name}.gz" for name in FILES.md5)
    )
    return Finding("missing", "MNIST", f"not here{instead}", advice)
