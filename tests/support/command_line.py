"""Calling commands inside the test's process, in a folder with a few networks."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from noeira.__main__ import main

NETWORKS = '''\
from noeira.nn import Linear, LinearReLU, ReLU, Sequential


class Plain(Sequential[Linear[4, 3], ReLU, Linear[3, 2]]):
    """Nothing is fused."""


class Joined(Sequential[LinearReLU[4, 3], Linear[3, 2]]):
    """One launch fewer in each direction."""


answer = 42
'''


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in, with net.py."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "net.py").write_text(NETWORKS)
    return tmp_path


@pytest.fixture
def call(folder: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """`call("explain", "net.py:Plain")` gives what is printed; `code` is what it must end with."""

    def run(*words: str, code: int = 0) -> str:
        try:
            found = main(words)
        except SystemExit as end:
            found = end.code
        output, errors = capsys.readouterr()
        assert found == code, output + errors
        return errors if code and errors else output

    return run


def staged(name: str, folder: str = "stages") -> str:
    """The file of a stage among those dumped, whatever its number: `staged("plan")`; or one that is
    named in full.
    """
    if "." in name:
        return f"{folder}/{name}"
    (path,) = Path(folder).glob(f"??_{name}.*")
    return str(path)


@pytest.fixture
def dumped(call: Callable[..., str], folder: Path) -> Path:
    """A folder of all stages of net.py:Joined."""
    call("dump", "net.py:Joined", "--batch", "5", "--all", "stages")
    return folder / "stages"
