"""Operands and results that are there with some attributes only, and need not be the last."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from own_given.own_given import Affine, GivenAttrs, GivenNorm, Norm

import noeira
from noeira.ir.attributes import variants
from noeira.ir.builder import Builder
from noeira.ir.cost import node_cost
from noeira.ir.gradients import gradients
from noeira.ir.op import OPS, Op, op
from noeira.ir.types import TensorType
from noeira.ir.verify import verify
from noeira.nn import MSE, Fused, Linear, Sequential, Tanh

TARGETS = ("cpu", "cuda-cpu", "reference")
ROWS, ROW = TensorType("f64", (5, 7)), TensorType("f64", (7,))


@pytest.mark.parametrize(
    "layer", [Norm[7], Affine[7], Fused[Tanh, Norm[7]], Fused[Tanh, Affine[7]]]
)
def test_all_targets_agree(layer: Any) -> None:
    random = np.random.default_rng(0)
    x, y = random.standard_normal((5, 3)), random.standard_normal((5, 7))
    net = Sequential[Linear[3, 7], layer]
    if "Norm" in str(layer):
        # The gradient of the norm is one of its shift alone.
        programs = [noeira.compile(net, batch=5, dtype="f64", seed=3, target=t) for t in TARGETS]
        made = [program.forward(x) for program in programs]
    else:
        programs = [
            noeira.compile(net, loss=MSE, batch=5, dtype="f64", seed=3, target=t) for t in TARGETS
        ]
        losses = [program.gradients(x, y) for program in programs]
        np.testing.assert_allclose(losses, losses[2], rtol=1e-13)
        names = list(programs[0].params)
        made = [
            np.concatenate([program.module.parameter(name).grd.ravel() for name in names])
            for program in programs
        ]
    np.testing.assert_allclose(made[0], made[2], rtol=1e-12)
    np.testing.assert_allclose(made[1], made[2], rtol=1e-12)


def given_norm(*types: TensorType, **attrs: bool) -> Builder:
    builder = Builder("given")
    values = [builder.input(f"v{i}", t) for i, t in enumerate(types)]
    builder.emit("given_norm", *values, hint="given_norm", **attrs)
    return builder


def test_names_are_those_of_what_is_given() -> None:
    builder = given_norm(ROWS, ROW, rms=True)
    (node,) = builder.nodes
    assert [v.name for v in node.outputs] == ["given_norm", "given_norm.rstd"]
    assert (node.operands, node.results) == (("x", "shift"), ("", "rstd"))
    assert node.types == (ROWS, None, ROW)
    assert node_cost(node).flops == 6 * 35
    assert node_cost(node).bytes_read == 8 * (35 + 7)
    (node,) = given_norm(ROWS, ROW, ROW, gained=True).nodes
    names = ["given_norm", "given_norm.mean", "given_norm.rstd"]
    assert [v.name for v in node.outputs] == names
    assert (node.operands, node_cost(node).flops) == (("x", "gain", "shift"), 7 * 35)


def test_another_number_of_operands_is_refused() -> None:
    said = "given_norm takes x, shift with these attributes, got 3 operands"
    with pytest.raises(noeira.ShapeError, match=said):
        given_norm(ROWS, ROW, ROW)
    with pytest.raises(noeira.ShapeError, match="given_norm takes x, gain, shift, got 2 operands"):
        given_norm(ROWS, ROW, gained=True)


def test_gradients_by_name() -> None:
    builder = given_norm(ROWS, ROW, rms=True)
    (node,) = builder.nodes
    seeds = {"given_norm": builder.input("seed", ROWS)}
    found = gradients(builder, seeds, node.inputs, "test")
    assert set(found) == {"v1"}
    saved = {"given_norm.mean": builder.input("seed.mean", TensorType("f64", (5,)))}
    (node,) = given_norm(ROWS, ROW).nodes
    with pytest.raises(noeira.VerifyError, match="is saved for the gradient of given_norm alone"):
        gradients(given_norm(ROWS, ROW), saved, node.inputs, "test")


class TwoInts(Op):
    """The place of the largest, twice with `gained`"""

    name, operands, results, Attrs, kind = "two_ints", ("x",), ("place", "other"), GivenAttrs, "row"

    def given_results(self, attrs: GivenAttrs) -> tuple[str, ...]:
        return self.results if attrs.gained else ("place",)

    def infer(self, attrs: GivenAttrs, x: TensorType) -> tuple[TensorType, ...]:
        return (TensorType("i32", x.shape[:-1]),) * (2 if attrs.gained else 1)


del OPS["two_ints"]


@pytest.mark.parametrize("gained", [False, True])
def test_whole_numbers_of_which_nothing_is_known(
    gained: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(OPS, "two_ints", TwoInts())
    builder = Builder("given")
    builder.emit("two_ints", builder.input("x", ROWS), gained=gained)
    verify(builder.done(builder.nodes[0].outputs))


@pytest.mark.parametrize(
    ("method", "given", "said"),
    [
        ("given_operands", ("shift", "x"), "it must be a tuple of its operands, in their order: x"),
        ("given_operands", ("x", "bias"), "given_operands of given_norm gives x, bias: it must be"),
        ("given_results", ["", "rstd"], "it must be a tuple of its results"),
        ("given_results", ("mean",), "given_results of given_norm leaves out the first result"),
    ],
)
def test_what_is_not_there_cannot_be_given(
    method: str, given: Any, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(GivenNorm, method, lambda self, attrs: given)
    monkeypatch.setattr(op("given_norm"), "known_types", {})
    with pytest.raises(noeira.VerifyError, match=re.escape(said)):
        given_norm(ROWS, ROW)


def test_operands_are_those_that_infer_takes() -> None:
    def infer(self: Op, attrs: Any, x: TensorType, gain: TensorType) -> tuple[TensorType, ...]:
        return (x,)

    with pytest.raises(
        noeira.VerifyError, match="swapped: its operands are gain, x, but infer takes x, gain"
    ):
        type("S", (Op,), {"name": "swapped", "operands": ("gain", "x"), "infer": infer})


def test_slopes_read_what_they_read_with_a_nodes_own_flags() -> None:
    slope = op("given_affine.d0")
    assert len(variants(GivenAttrs)) == 4
    read = {
        (a.rms, a.gained): slope.given_operands(a)  # type: ignore[attr-defined]
        for a in variants(GivenAttrs)
    }
    assert read[False, False] == ("d",)
    assert read[True, False] == ("d", "a.x")
    assert read[False, True] == ("d", "a.gain")
    assert set(read[True, True]) == {"d", "a.x", "a.gain"}
