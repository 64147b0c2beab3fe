"""The `golden` fixture of conftest.py."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture
def folder(golden: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder in place of tests/golden."""
    monkeypatch.setitem(golden.__globals__, "GOLDEN", tmp_path)
    return tmp_path


def updating(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, value: bool) -> None:
    """As if --update-golden had been given, or not."""
    monkeypatch.setattr(request.config.option, "update_golden", value)


@pytest.mark.parametrize("width", [8])
def test_golden(
    golden: Callable[..., None],
    folder: Path,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    width: int,
):
    updating(request, monkeypatch, False)
    with pytest.raises(
        pytest.fail.Exception, match=r"no golden/test_golden_8\.txt for this text\. If"
    ):
        golden("one\ntwo")
    updating(request, monkeypatch, True)
    golden("one\ntwo")
    golden("three", "more")
    assert sorted(p.name for p in folder.iterdir()) == [
        "test_golden_8.more.txt",
        "test_golden_8.txt",
    ]
    updating(request, monkeypatch, False)
    golden("one\ntwo")
    with pytest.raises(pytest.fail.Exception, match=r"(?s)--update-golden .*-two\n\+2"):
        golden("one\n2")
