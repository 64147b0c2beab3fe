"""Layers of one's own: what is said to their authors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from says import says
from usage_types import Affine

import noeira
from noeira.errors import CompositionError
from noeira.nn import (
    Buffer,
    Linear,
    Module,
    Param,
    ReLU,
    Residual,
    Sequential,
    derived,
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


def author_of(**space: Any) -> Callable[[], Any]:
    """The class statement of a module that has this in it."""
    return lambda: type(Module)("Bad", (Module,), {"signature": "(*) -> (*)", **space})


def test_what_a_class_defines_are_classmethods():
    assert author(author_of(children=lambda cls: ())) == (
        "Bad.children is no classmethod: write @classmethod def children(cls)"
    )
    assert author(author_of(adjusted=lambda cls, end, axis, length: None)) == (
        "Bad.adjusted is no classmethod: write @classmethod def adjusted(cls, end, axis, length)"
    )


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"a": ReLU}, "Bad.children() gives {'a': ReLU}: write pairs such as"),
        (((ReLU, "a"),), "Bad.children() gives (ReLU, 'a') as a child: write pairs such as"),
        ((ReLU,), "Bad.children() gives ReLU as a child: write pairs such as"),
        ((("a", ReLU()),), "Bad.children(): a must be a type: write ReLU, not ReLU()"),
        ((("a", Linear),), "Bad.children(): a: Linear needs its parameters: write Linear[IN, OUT]"),
        ((("a.b", ReLU),), "Bad.children(): 'a.b' cannot be in a path; names are of letters"),
    ],
)
def test_children_are_pairs_of_a_name_and_a_type(given: Any, message: str):
    bad = author_of(children=classmethod(lambda _: given))()
    for make in (bad.parameters, lambda: noeira.trace(bad, input=(3,)), bad):
        with pytest.raises(CompositionError) as found:
            make()
        assert str(found.value).startswith(message)


def test_declarations_are_texts():
    assert author(lambda: Param(3, "D")) == (  # type: ignore[arg-type]
        'Param: an axis is a text such as "D", not 3: write "3"'
    )
    assert author(lambda: Buffer("D", when=True)) == (  # type: ignore[arg-type]
        'Buffer: when is a text such as "D", not True'
    )
    assert author(lambda: Param("A", "B", "C", fans=("A", 2))) == (  # type: ignore[arg-type]
        'Param: a fan is a text such as "D", not 2: write "2"'
    )


def test_a_rule_that_fails_says_whose_it_is():
    class Bad(Residual):
        D = size()
        INNER = derived(lambda bad: Linear[bad.DIM, bad.D])

    with pytest.raises(CompositionError) as found:
        Bad[3]
    assert str(found.value) == (
        "Bad[3]: what INNER is derived by fails with AttributeError: type object 'Bad' has no "
        "attribute 'DIM'"
    )
    assert isinstance(found.value.__cause__, AttributeError)


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
