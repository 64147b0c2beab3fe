"""Builds pycuda from its source distribution, once, for tests that run it on the fake driver.

Nothing of the checkout's environment is changed. What is built lies in a folder of the user's
cache (or PYCUDA_BUILD_CACHE), by version, interpreter and source, so that later runs only look.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from fake_driver import build as fake_driver
from filelock import FileLock
from platformdirs import user_cache_path

PYCUDA = "pycuda==2026.1"
# Its build wants cuda.h and cudaProfiler.h; a machine that tests need not have a toolkit.
HEADERS = ["nvidia-cuda-runtime==13.0.96", "nvidia-cuda-profiler-api==13.0.85"]
TOOLS = ["setuptools", "wheel", "numpy"]
PIP = ["-m", "pip", "--quiet", "--disable-pip-version-check", "--retries", "1"]
LINES_OF_A_FAILURE = 15

# Settings that pycuda's setup reads. cuRAND would be on, and the headers have none.
SITECONF = """\
CUDA_ROOT = {root!r}
CUDA_ENABLE_CURAND = False
CUDADRV_LIB_DIR = [{driver!r}]
CXXFLAGS = ["-O1", "-g0", "-w"]
LDFLAGS = ["-s"]
"""


class Unavailable(Exception):
    """pycuda cannot be had here; the message says why."""


@dataclass(frozen=True)
class Build:
    """Where pycuda with its dependencies lies (`site`), and the fake libcuda.so.1 (`driver`)."""

    site: Path
    driver: Path

    def environment(
        self, pycuda: bool = True, driver: bool = True, **settings: str
    ) -> dict[str, str]:
        """The environment of a child process that sees this pycuda and this driver, or lacks one.

        `settings` are more variables, such as FAKE_CUDA_DEVICES="0".
        """
        paths = [str(self.site)] if pycuda else []
        paths += [str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])]
        child = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), **settings}
        if driver:
            child["LD_LIBRARY_PATH"] = str(self.driver)
        return child


def prepare() -> Build:
    """Builds what is not there yet: about a minute and a half the first time, then nothing.

    Raises Unavailable without gcc and g++, and if a download or a build fails.
    """
    if missing := fake_driver.compiler_missing():
        raise Unavailable(f"pycuda cannot be built: {missing}")
    cache = Path(os.environ.get("PYCUDA_BUILD_CACHE") or user_cache_path("noeira-tests"))
    cache.mkdir(parents=True, exist_ok=True)
    with FileLock(cache / "lock"):
        try:
            headers = made(cache / f"headers-{digest(HEADERS)}", install_headers)
            include = headers / "nvidia" / "cu13" / "include"
            interpreter = [sys.implementation.cache_tag or "", platform.machine()]
            sources = [path.read_text() for path in fake_driver.sources()]
            driver = made(
                cache / f"driver-{digest([str(headers), *sources])}",
                lambda folder: fake_driver.build(include, folder),
            )
            site = made(
                cache / f"pycuda-{digest([PYCUDA, SITECONF, *HEADERS, *interpreter])}",
                lambda folder: install_pycuda(include.parent, driver, folder),
            )
        except subprocess.CalledProcessError as error:
            raise Unavailable(failure(error)) from error
    return Build(site, driver)


def digest(parts: list[str]) -> str:
    """A name for texts: another for other texts."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def made(folder: Path, make: Callable[[Path], object]) -> Path:
    """`folder`, which `make` fills if it is not there: whole, or not at all."""
    if not folder.exists():
        unfinished = Path(tempfile.mkdtemp(prefix="unfinished-", dir=folder.parent))
        try:
            make(unfinished)
            unfinished.rename(folder)
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
    return folder


def failure(error: subprocess.CalledProcessError) -> str:
    """What was run and the last words of it."""
    words = "\n".join((error.stderr or error.stdout or "").splitlines()[-LINES_OF_A_FAILURE:])
    return f"pycuda cannot be built: {' '.join(map(str, error.cmd))}\n{words}"


def run(*command: str | Path, cwd: Path | None = None) -> None:
    """Runs a command quietly. Raises CalledProcessError with what it printed."""
    subprocess.run(list(map(str, command)), cwd=cwd, check=True, capture_output=True, text=True)


def install_headers(folder: Path) -> None:
    """Unpacks NVIDIA's headers into a folder."""
    with tempfile.TemporaryDirectory() as work:
        python = environment_with_pip(Path(work))
        run(python, *PIP, "install", "--no-deps", "--target", folder, *HEADERS)


def environment_with_pip(folder: Path) -> Path:
    """Makes a virtual environment and gives its interpreter: the tests' own may have no pip."""
    run(sys.executable, "-m", "venv", folder / "venv")
    return folder / "venv" / "bin" / "python"


def install_pycuda(root: Path, driver: Path, folder: Path) -> None:
    """Builds pycuda against the headers under `root` and the library in `driver`; installs it and
    what it depends on into `folder`.
    """
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        python = environment_with_pip(work)
        run(python, *PIP, "install", *TOOLS)
        run(
            *[python, *PIP, "download", "--no-deps", "--no-binary", "pycuda"],
            *["--no-build-isolation", PYCUDA],
            cwd=work,
        )
        with tarfile.open(next(work.glob("pycuda-*.tar.gz"))) as archive:
            archive.extractall(work, filter="data")
        source = next(path for path in work.glob("pycuda-*") if path.is_dir())
        (source / "siteconf.py").write_text(
            SITECONF.format(root=str(root), driver=str(driver)), encoding="utf-8"
        )
        run(
            *[python, *PIP, "wheel", "--no-deps", "--no-build-isolation"],
            *["--wheel-dir", work / "wheels", source],
        )
        run(python, *PIP, "install", "--target", folder, *(work / "wheels").glob("*.whl"))


if __name__ == "__main__":
    print(prepare())
