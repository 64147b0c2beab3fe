"""The backward walk: where sums belong, what is saved, what slopes are tried on."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from graphs import emit, f32

from noeira.errors import VerifyError
from noeira.ir import graph
from noeira.ir.builder import Builder
from noeira.ir.gradients import Backward, gradients
from noeira.ir.graph import Value
from noeira.ir.op import OPS, Op, op
from noeira.ir.ops.elementwise import Elementwise
from noeira.ir.samples import Draw, Sample
from noeira.ir.scalar import Expr, call, square, var
from noeira.ir.verify import verify
from noeira.passes.fuse import Fuse


@pytest.fixture
def defined() -> Iterator[None]:
    """Ops that a test defines are gone after it."""
    before = dict(OPS)
    yield
    OPS.clear()
    OPS.update(before)


def stamps_of_sums(group: str, readers: tuple[str, str]) -> list[str]:
    """The groups of the sums of cotangents of a value made in a group and read in two."""
    builder = Builder("fan")
    for path in sorted({group, *readers} - {""}):
        builder.group(path, "Fused")
    x = builder.input("x", f32(3))
    y = emit(builder, "tanh", x, group=group)
    ends = [
        emit(builder, name, y, group=stamp)
        for name, stamp in zip(("sigmoid", "exp"), readers, strict=True)
    ]
    seeds = {end.name: builder.input(f"d{i}", end.type) for i, end in enumerate(ends)}
    gradients(builder, seeds, [x], "vjp")
    verify(builder.done([]))
    return [node.group for node in builder.nodes if node.op.name == "add"]


@pytest.mark.parametrize(
    ("group", "readers", "stamp"),
    [
        ("0", ("0", "0"), "0~"),
        ("0", ("0", ""), "0~"),
        ("0", ("1", "0"), "0~"),
        ("", ("1", "1"), "1~"),
        ("0", ("1", "1"), "1~"),
        ("0", ("1", "2"), ""),
        ("0", ("1", ""), ""),
        ("", ("", ""), ""),
    ],
)
def test_a_sum_belongs_to_the_group_of_its_value_or_of_its_parts(
    group: str, readers: tuple[str, str], stamp: str
) -> None:
    assert stamps_of_sums(group, readers) == [stamp]


def test_a_walk_is_stamped_by_who_asks_and_may_be_walked_again() -> None:
    """A gradient penalty: the loss reads a gradient."""
    builder = Builder("penalty")
    x = builder.input("x", f32(3))
    y = emit(builder, "sum", emit(builder, "tanh", x))
    one = emit(builder, "constant", value=1.0)
    first = gradients(builder, {y.name: one}, [x], "trace")
    penalty = emit(builder, "sum", emit(builder, "multiply", first["x"], first["x"]))
    count = len(builder.nodes)
    second = gradients(builder, {penalty.name: one}, [x], "vjp")
    assert {node.origin.by for node in builder.nodes[:count]} == {"trace"}
    assert {node.origin.by for node in builder.nodes[count:]} == {"vjp"}
    verify(builder.done([second["x"]]))


class Halved(Op):
    """x / 2, and what its gradient reads."""

    operands, results, saved = ("x",), ("", "factor"), ("factor",)

    def infer(self, attrs: Any, x: Any) -> Any:
        return (x, x)

    def vjp(self, attrs: Any, back: Backward) -> dict[str, Value]:
        return {"x": back.emit("multiply", back.cotangent, back.outputs[1])}


@pytest.mark.usefixtures("defined")
def test_what_is_saved_has_no_cotangent_and_a_name() -> None:
    type("Own", (Halved,), {"name": "halved"})
    builder = Builder("saved")
    x = builder.input("x", f32(3))
    y, factor = emit(builder, "halved", x, hint="0.norm")
    assert (y.name, factor.name) == ("0.norm", "0.norm.factor")
    found = gradients(builder, {y.name: builder.input("d", y.type)}, [x], "vjp")
    assert found["x"].name == "d.x"
    loss = emit(builder, "multiply", y, factor)
    said = "%0.norm.factor, factor of halved, is saved for the gradient of halved alone"
    with pytest.raises(VerifyError, match=said):
        gradients(builder, {loss.name: builder.input("e", y.type)}, [x], "vjp")
    with pytest.raises(VerifyError, match="own: there is no result 'mean' to save"):
        type("Wrong", (Halved,), {"name": "own", "saved": ("mean",)})


class Root(Elementwise):
    """\u221ax"""

    def expression(self, attrs: Any) -> Expr:
        return call("sqrt", var("x"))

    def samples(self) -> tuple[Sample, ...]:
        return (Sample((Draw(f32(4, 33), "positive"),)),)


@dataclass(frozen=True)
class WeightAttrs(graph.Attrs):
    """weight: has no default."""

    weight: float


class Weighted(Elementwise):
    """x + weight x\u00b2"""

    Attrs = WeightAttrs

    def expression(self, attrs: WeightAttrs) -> Expr:
        return var("x") + square(var("x")) * attrs.weight

    def samples(self) -> tuple[Sample, ...]:
        return tuple(Sample((Draw(f32(3)),), {"weight": weight}) for weight in (0.0, 1.0))


@pytest.mark.usefixtures("defined")
def test_slopes_are_tried_on_the_operands_of_their_op() -> None:
    type("Own", (Root,), {"name": "root"})
    assert [draw.kind for draw in op("root.d0").samples()[0].operands] == ["normal", "positive"]
    type("Own", (Weighted,), {"name": "weighted"})
    slope = op("weighted.d0")
    assert slope.operands == ("d", "a.x")
    assert [sample.attrs for sample in slope.samples()] == [{"weight": 0.0}, {"weight": 1.0}]
    builder = Builder("attrs")
    x = builder.input("x", f32(3))
    y = emit(builder, "weighted", x, weight=0.5)
    gradients(builder, {y.name: builder.input("d", y.type)}, [x], "vjp")
    assert str(builder.nodes[-1]).split("   ")[0].strip() == (
        "%d.x = weighted.d0(%d, %x) {weight = 0.5} : f32[3]"
    )


def test_what_only_leads_to_updates_is_no_part_of_a_kernel() -> None:
    builder = Builder("account")
    builder.group("0", "Fused")
    x, state = builder.input("x", f32(4, 1)), builder.state("s", f32(2, 2))
    y = emit(builder, "relu", x, group="0")
    largest = emit(builder, "softmax", x, group="0", hint="kept")
    builder.update(state, emit(builder, "reshape", largest, shape=(2, 2)))
    z = emit(builder, "tanh", y, group="0", hint="z")
    after = verify(Fuse()(builder.done([z])))
    assert [str(node).split(" = ")[1].split("(")[0] for node in after.nodes] == [
        "softmax",
        "reshape",
        "fused[relu, tanh]",
    ]


@pytest.mark.parametrize(
    ("name", "shape", "said"),
    [
        ("y", (4,), "the seeds of gradients gave f32[4] for %y, which is f32[3, 4]"),
        ("x", (4,), "the seeds of gradients gave f32[4] for %x, which is f32[3, 4]"),
        ("yy", (3, 4), "gradients: a seed for %yy, which there is not; did you mean %y?"),
    ],
)
def test_a_seed_has_the_type_of_a_value_there_is(
    name: str, shape: tuple[int, ...], said: str
) -> None:
    builder = Builder("test")
    x = builder.input("x", f32(3, 4))
    builder.emit("exp", x, hint="y")
    seed = builder.input("seed", f32(*shape))
    with pytest.raises(VerifyError, match=re.escape(said)):
        gradients(builder, {name: seed}, [x], "vjp")
