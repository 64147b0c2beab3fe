"""The pass `order`: what lies channels last, where it is reordered, that it can be undone, and that
it changes no bits.
"""

from __future__ import annotations

import numpy as np
import pytest
from pass_jobs import run

from noeira.errors import VerifyError
from noeira.ir.builder import Builder
from noeira.ir.graph import ComputeGraph
from noeira.ir.interpret import interpret
from noeira.ir.layouts import Member
from noeira.ir.orders import ORDERS, flattened, member_of, ordered
from noeira.ir.text.dump import Dump, parse_dump
from noeira.ir.types import TensorType
from noeira.ir.verify import verify, verify_orders
from noeira.job import job_of
from noeira.nn import MSE, SGD, Conv2D, GradGate, ReLU, Residual, Sequential, StopGrad
from noeira.passes.base import Pass
from noeira.passes.order import Order
from noeira.passes.vjp import Vjp

Net = Sequential[
    Conv2D.of(3, 4, 3, padding=1),
    ReLU,
    Residual[Sequential[Conv2D.of(4, 4, 3, padding=1), ReLU]],
    Conv2D.of(4, 2, 3, stride=2, padding=1),
]
LAYOUT = {"input": (3, 6, 5), "batch": 2}


def step(net: type = Net) -> ComputeGraph:
    """A training step before the pass."""
    dump = job_of(net, loss=MSE, optimizer=SGD, **LAYOUT).step()
    return run(dump.graph, Vjp())


def reorders(graph: ComputeGraph) -> list[str]:
    """What is reordered, and how."""
    nodes = [node for node in graph.nodes if node.op.name == "reorder"]
    return [f"{node.inputs[0]} {node.outputs[0].type.order or 'rows'}" for node in nodes]


def test_only_the_borders_are_reordered():
    assert reorders(run(step(), Order())) == [
        "%x nhwc",
        "%3.convolution rows",
        "%target nhwc",
    ]


def test_without_it_each_op_about_images_has_its_own():
    found = reorders(run(step(), Order(channels_last=False)))
    assert "%0.convolution rows" in found and "%1.relu nhwc" in found
    assert len(found) > len(reorders(run(step(), Order())))


def test_gates_pass_images_on_as_they_lie():
    gated = Sequential[Conv2D[3, 4, 1], StopGrad, GradGate, Conv2D[4, 2, 1]]
    assert reorders(run(step(gated), Order())) == [
        "%x nhwc",
        "%3.convolution rows",
        "%target nhwc",
    ]


@pytest.mark.parametrize("way", [Order(), Order(channels_last=False)])
def test_it_changes_no_bits_and_can_be_undone(way: Pass):
    before = step()
    after = way(before)
    way.check(before, verify(after, after="order"))
    rng = np.random.default_rng(0)
    given = {
        value.name: rng.standard_normal(value.type.shape).astype(np.float32)
        if value.type.is_float
        else np.zeros(value.type.shape, np.int64)
        for value in before.given()
        if value.type.layout or "." not in value.name
    }
    one, other = interpret(before, given), interpret(after, given)
    for name in ("loss", "grads"):
        np.testing.assert_array_equal(one[name], other[name])


@pytest.mark.parametrize(
    ("taken_out", "instead", "message"),
    [
        (
            "convolution(%x.nhwc",
            "convolution(%x",
            "%x is f32[2, 3, 6, 5], and the kernel of convolution takes it nhwc: "
            "the pass `order` puts a reorder between them\n  line ",
        ),
        ('"hwio", "hwio", "hwio"', '"hwio", "", "hwio"', "pack holds 144 elements @ "),
        (
            "return %loss",
            "return %1.relu",
            "%1.relu is f32[2, 4, 6, 5] nhwc, and must lie row major, as what callers get does",
        ),
    ],
)
def test_an_edited_dump_that_lies_otherwise_is_refused(taken_out: str, instead: str, message: str):
    text = str(Dump(run(step(), Order()), (), ()))
    assert taken_out in text
    with pytest.raises(VerifyError) as caught:
        verify_orders(verify(parse_dump(text.replace(taken_out, instead, 1)).graph))
    assert str(caught.value).startswith(message)


def test_a_graph_without_images_is_itself():
    graph = job_of(Sequential[ReLU, ReLU], input=(3, 4, 5), batch=2).forward().graph
    assert Order()(graph) is graph


def test_orders_are_read_back():
    graph = run(step(), Order())
    text = str(Dump(graph, ("trace",), ("dce",)))
    assert "f32[2, 3, 6, 5] nhwc" in text and "0.weight: [4, 3, 3, 3] hwio @ 0 decay" in text
    assert parse_dump(text).graph == graph


def test_sums_over_all_but_channels_lie_side_by_side_in_memory():
    builder = Builder("sums")
    x = builder.input("x", TensorType("f32", (2, 3, 4, 5)))
    y = builder.emit("sum", x, axes=(0, 2, 3))
    after = Order()(builder.done([y]))
    assert reorders(after) == ["%x nhwc"]
    assert after.nodes[-1].laid.attrs.axes == (0, 1, 2)  # type: ignore[attr-defined]


@pytest.mark.parametrize("order", ORDERS)
def test_a_member_is_what_was_laid_there(order: str):
    shape = tuple(range(2, 2 + len(ORDERS[order])))
    array = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    flat = np.zeros(array.size + 32, np.float32)
    member = Member("weight", shape, 32, order=order)
    member_of(flat, member)[...] = array
    np.testing.assert_array_equal(flat[32:], flattened(array, order))
    np.testing.assert_array_equal(member_of(flat, member), array)


def test_an_order_that_changes_nothing_is_none():
    assert str(ordered(TensorType("f32", (2, 1, 4, 5)), "nhwc")) == "f32[2, 1, 4, 5]"
    assert str(ordered(TensorType("f32", (2, 3, 1, 1)), "nhwc")) == "f32[2, 3, 1, 1]"
    assert str(ordered(TensorType("f32", (2, 3, 1, 2)), "nhwc")) == "f32[2, 3, 1, 2] nhwc"


def test_an_order_of_other_axes_is_refused():
    with pytest.raises(VerifyError, match=r"f32\[2, 3\] has not the axes of the order 'nhwc'"):
        ordered(TensorType("f32", (2, 3)), "nhwc")
