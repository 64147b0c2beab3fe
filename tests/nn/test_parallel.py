"""Parallel: branches side by side, along any axis."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import noeira
from noeira.errors import CompositionError
from noeira.ir.graph import Value
from noeira.nn import Linear, Module, Parallel, Param, ReLU, Scope, Tanh, size


class Map(Module):
    """A 1×1 convolution: over channels."""

    IC, OC = size(), size()
    weight = Param("IC", "OC")
    signature = "(IC, H, W) -> (OC, H, W)"

    @classmethod
    def trace(cls, scope: Scope, x: Value) -> Value:
        batch, _, height, width = x.type.shape
        wide = scope.emit("reshape", x, shape=(batch, cls.IC, height * width))
        turned = scope.param("weight")
        rows = [
            scope.emit("sum", wide * scope.emit("reshape", column, shape=(cls.IC, 1)), axes=(1,))
            for column in (scope.emit("slice", turned, starts=(i,)) for i in range(cls.OC))
        ]
        made = scope.emit("concat", *rows)
        return scope.emit("reshape", made, shape=(batch, cls.OC, height, width))


def test_branches_side_by_side_along_another_axis() -> None:
    net = Parallel.of(Map[3, 2], ReLU, Map[3, 4], axis=-3)
    assert repr(net) == "Parallel.of(Map[3, 2], ReLU, Map[3, 4], axis=-3)"
    assert eval(repr(net)) is net
    assert pickle.loads(pickle.dumps(net)) is net
    assert str(net.shapes()) == "(3, H, W) -> (9, H, W)"
    assert str(Parallel.of(ReLU, Tanh, axis=-2).shapes()) == "(*, W, W2) -> (*, 2*W, W2)"
    assert Parallel.of(ReLU, Tanh, axis=-1) is Parallel[ReLU, Tanh]
    x = np.random.default_rng(0).standard_normal((4, 3, 2, 5)).astype("f4")
    program = noeira.compile(net, batch=2, input=(3, 2, 5), target="reference")
    made = program.forward(x)
    branches = [
        np.einsum("bchw,co->bohw", x, program.params["0.weight"]),
        np.maximum(x, 0),
        np.einsum("bchw,co->bohw", x, program.params["2.weight"]),
    ]
    assert np.allclose(made, np.concatenate(branches, 1), atol=1e-6)


def test_mistakes_of_an_axis() -> None:
    for wrong in (0, 1, 1.0, "H"):
        with pytest.raises(CompositionError, match="axis must be an axis counted from the end: "):
            Parallel.of(ReLU, Tanh, axis=wrong)
    with pytest.raises(CompositionError) as found:
        Parallel.of(Linear[3, 4], Linear[3, 5], axis=-2)
    assert str(found.value).endswith("What they give may differ in axis -2 only.")
