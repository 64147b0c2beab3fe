"""Layers of one's own: what is said to their authors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from says import says
from usage_types import Affine

from noeira.errors import CompositionError
from noeira.nn import (
    Linear,
    Module,
    Param,
    ReLU,
    Sequential,
    flag,
    size,
)


def author(make: Callable[[], Any]) -> str:
    """The message to someone who writes a module."""
    with pytest.raises(CompositionError) as found:
        make()
    return str(found.value)


def test_mistakes_of_authors_are_found_when_the_class_is_made():
    def lower_case() -> None:
        class Bad(Module):
            width = size()

    def lower_case_and_used() -> None:
        class Bad(Module):
            weight = Param("D", init="bias")
            d = size()

    def unknown_axis() -> None:
        class Bad(Module):
            IN = size()
            weight = Param("IN", "OUT")

    def unknown_condition() -> None:
        class Bad(Module):
            IN = size()
            weight = Param("IN", init="bias", when="BIAS")

    def late_parameter() -> None:
        class Bad(Linear[3, 4]):
            EXTRA = flag(True)

    def bad_signature() -> None:
        class Bad(Module):
            signature = "(*, IN -> (*)"

    assert "Bad.width: a type parameter is written in capitals: WIDTH" in author(lower_case)
    assert author(lower_case_and_used) == "Bad.d: a type parameter is written in capitals: D"
    assert author(unknown_axis) == "Bad.weight: there is no type parameter OUT"
    assert author(unknown_condition) == "Bad.weight: there is no type parameter BIAS"
    assert author(late_parameter) == (
        "Bad: type parameters belong on a child of Linear, not of Linear[…]"
    )
    assert author(bad_signature) == (
        "the signature of Bad: expected ')'\n\n    (*, IN -> (*)\n           ^"
    )
    assert "needs its fans" in author(lambda: Param("OC", "IC", "K"))
    assert "init must be" in author(lambda: Param("IN", "OUT", init="gauss"))


def test_a_module_without_signature_or_trace_says_so():
    class Empty(Module):
        """Nothing."""

    says(Empty.shapes, 'Empty has no signature: write signature = "(*) -> (*)" in the class')
    says(
        lambda: Empty.trace(None),  # type: ignore[arg-type]
        "Empty has no trace: define the classmethod trace(cls, scope, x)",
    )


def test_own_layers_are_types_like_any_other():
    assert repr(Affine[4]) == "Affine[4]"
    assert Affine.of(4, shift=False) is Affine[4, False]
    assert list(Affine[4].parameters()) == ["gain", "shift"]
    assert list(Affine[4, False].parameters()) == ["gain"]
    assert list(Sequential[ReLU, Affine[4]].buffers()) == ["1.calls"]
