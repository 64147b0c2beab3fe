"""Repeat: modules of several inputs, of which the first goes round."""

from __future__ import annotations

import numpy as np
import pytest

import noeira
from noeira.errors import CompositionError
from noeira.ir.graph import Value
from noeira.nn import Linear, Module, Param, ReLU, Repeat, Residual, Scope, Sequential, size


class Cond(Module):
    """(x + c V) · g"""

    D, E = size(), size()
    gain = Param("D", init="bias")
    signature = "(*, D), (*, E) -> (*, D)"

    @classmethod
    def children(cls) -> tuple[tuple[str, type[Module]], ...]:
        return (("embed", Linear[cls.E, cls.D]),)

    @classmethod
    def trace(cls, scope: Scope, x: Value, c: Value) -> Value:
        return (x + scope.child("embed", Linear[cls.E, cls.D]).run(c)) * scope.param("gain")


class Growing(Module):
    """Gives more than it takes."""

    signature = "(3), (2) -> (4)"


def test_further_inputs_are_the_same_for_all() -> None:
    net = Repeat[3, Cond[4, 2]]
    assert str(net.shapes()) == "(*, 4), (*, 2) -> (*, 4)"
    assert list(net.parameters())[:2] == ["0.gain", "0.embed.weight"]
    program = noeira.compile(net, batch=2, target="reference")
    random = np.random.default_rng(0)
    for value in program.params.values():
        value[...] = random.standard_normal(value.shape)
    x, c = random.standard_normal((2, 4)).astype("f4"), np.ones((2, 2), "f4")
    wanted = x
    for i in "012":
        p = {name: program.params[f"{i}.{name}"] for name in ("gain", "embed.weight", "embed.bias")}
        wanted = (wanted + c @ p["embed.weight"] + p["embed.bias"]) * p["gain"]
    assert np.allclose(program.forward((x, c)), wanted, atol=1e-5)


def test_what_goes_round_must_fit() -> None:
    with pytest.raises(CompositionError, match="feeds what its module gives to the next copy"):
        Repeat[2, Growing]
    with pytest.raises(CompositionError, match="in Residual a layer takes one"):
        Residual[Cond[4, 2]]
    with pytest.raises(CompositionError, match="in Sequential a layer takes one"):
        Sequential[Repeat[2, Cond[4, 2]], ReLU]
