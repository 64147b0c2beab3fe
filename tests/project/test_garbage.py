"""The collector of garbage is held up for a compile, and goes on after it."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

import noeira
from noeira import compiler
from noeira.garbage import uncollected
from noeira.nn import Linear


@pytest.fixture(autouse=True)
def as_it_was() -> Iterator[None]:
    """A test that fails leaves the collector on."""
    yield
    gc.enable()


def test_it_goes_on_after_a_compile(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = list[bool]()
    lower = compiler.lower
    monkeypatch.setattr(
        compiler, "lower", lambda *given: (seen.append(gc.isenabled()), lower(*given))[1]
    )
    noeira.compile(Linear[3, 7], batch=5)
    assert seen == [False]
    assert gc.isenabled()


def test_it_goes_on_after_an_error() -> None:
    with pytest.raises(ZeroDivisionError), uncollected():
        print(1 / 0)
    assert gc.isenabled()


def test_who_has_turned_it_off_keeps_it_off() -> None:
    gc.disable()
    with uncollected():
        pass
    assert not gc.isenabled()
