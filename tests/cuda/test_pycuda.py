"""pycuda on the fake driver: its own interface, then noeira's device on it, in child processes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import cuda_device_programs
import cuda_network_programs
import pycuda_programs
import pytest
from pycuda_build import Build, Unavailable, prepare

HERE = Path(__file__).parent

pytestmark = pytest.mark.slow


def built() -> Build:
    """pycuda and the fake driver. Without them tests are skipped, but in CI they fail."""
    try:
        return prepare()
    except Unavailable as reason:
        if os.environ.get("CI"):
            pytest.fail(str(reason), pytrace=False)
        pytest.skip(str(reason))


@pytest.fixture(scope="session")
def build() -> Build:
    """The same, once."""
    return built()


def test_without_compilers_pycuda_is_not_built(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match="gcc and g\\+\\+ not found"):
        built()
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="gcc and g\\+\\+ not found"):
        built()


def test_without_a_package_index_the_reason_is_pips(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PYCUDA_BUILD_CACHE", str(tmp_path))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(Unavailable, match="No matching distribution found for nvidia-cuda-runtime"):
        prepare()
    assert not list(tmp_path.glob("*-*"))


@pytest.mark.parametrize("name", pycuda_programs.programs)
def test_pycuda(build: Build, name: str) -> None:
    pycuda_programs.programs.check(name, "pycuda_programs", build)


@pytest.mark.parametrize("name", cuda_device_programs.programs)
def test_device(build: Build, name: str) -> None:
    written = cuda_device_programs.programs.check(name, "cuda_device_programs", build)
    # After a failed launch nothing can be freed, and pycuda says so of each thing.
    if name != "a_failed_launch_says_so_ever_after":
        assert "PyCUDA" not in written, written
        assert "could not be cleaned up" not in written, written


@pytest.mark.parametrize("name", cuda_network_programs.programs)
def test_network(build: Build, name: str) -> None:
    cuda_network_programs.programs.check(name, "cuda_network_programs", build)


def test_what_a_gpu_is_tested_with(build: Build) -> None:
    """The tests for a GPU pass on the fake driver: none is skipped."""
    code = (
        "import sys, pytest, emulated_cubins; emulated_cubins.emulate_cubins();"
        "sys.exit(pytest.main(sys.argv[1:]))"
    )
    words = ["-q", "-m", "gpu", "-k", "not f64", "-p", "no:cacheprovider"]
    child = subprocess.run(
        [sys.executable, "-c", code, *words, str(HERE / "test_gpu.py")],
        cwd=HERE.parents[1],
        env=build.environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert child.returncode == 0, child.stdout + child.stderr
    assert "skipped" not in child.stdout, child.stdout
