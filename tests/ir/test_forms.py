"""What one kernel can be: bodies that are one, and bodies refused with the reason."""

from __future__ import annotations

from typing import Any

import pytest
from graphs import f32

from noeira.errors import FusionError
from noeira.ir.body import joined
from noeira.ir.builder import Builder
from noeira.ir.forms import refusal
from noeira.ir.graph import Node
from noeira.ir.phasing import Order
from noeira.ir.types import TensorType
from noeira.nn import Fused, Linear, Parallel, ReLU, Residual, Sequential, Tanh


def body(*lines: tuple[Any, ...]) -> tuple[Node, ...]:
    """Nodes from (op, operand, …) lines; r0, r1, … are the results of the lines above."""
    builder = Builder("body")
    shapes = {"x": (4, 5), "w": (5, 5), "b": (5,), "one": (), "cube": (2, 4, 5)}
    values = {name: builder.input(name, f32(*shape)) for name, shape in shapes.items()}
    values["t"] = builder.input("t", TensorType("i32", (4,)), 5)
    for index, (name, *rest) in enumerate(lines):
        attrs = rest.pop() if isinstance(rest[-1], dict) else {}
        made = builder.emit(name, *(values[operand] for operand in rest), **attrs)
        values[f"r{index}"] = made[0] if isinstance(made, tuple) else made
    return tuple(builder.nodes)


LINEAR = ("linear", "x", "w", "b")
# Mean and variance of the columns of r0, in two readings.
VARIANCE = (
    ("sum", "r0", {"axes": (0,), "scale": 0.25}),
    ("subtract", "r0", "r1"),
    ("multiply", "r2", "r2"),
    ("sum", "r3", {"axes": (0,), "scale": 0.25}),
)
TAKEN = {
    "map": [
        [("relu", "x")],
        [("relu", "x"), ("tanh", "r0"), ("add", "r1", "x")],
        [("relu", "x"), ("tanh", "x"), ("add", "r0", "r1")],
        [("broadcast", "b", {"shape": (4, 5)}), ("multiply", "r0", "x")],
        [("add", "x", "b"), ("multiply", "r0", "one"), ("subtract", "r1", "r0")],
    ],
    "anchor": [
        [LINEAR],
        [LINEAR, ("relu", "r0")],
        [LINEAR, ("add", "r0", "x"), ("multiply", "r1", "b"), ("tanh", "r2")],
        [("matmul", "x", "w"), ("scale", "r0", {"factor": 0.5})],
        [("sum", "x", {"axes": (0,)})],
        [("relu", "x"), ("sum", "r0", {"axes": (0,)})],
        [("relu", "x"), ("tanh", "r0"), ("sum", "r0", {"axes": (0,)})],
        [("add", "x", "b"), ("sum", "r0", {"axes": (1,)})],
        [("relu", "cube"), ("sum", "r0", {"axes": (1,)})],
        [("multiply", "x", "one"), ("sum", "r0")],
        [("cross_entropy", "x", "t")],
        [("softmax", "x")],
        [("add", "x", "b"), ("softmax", "r0"), ("multiply", "r1", "r0"), ("tanh", "r2")],
        [("multiply", "x", "one"), ("softmax_grad", "r0", "x"), ("scale", "r1", {"factor": 0.5})],
        [("relu", "x"), ("sum", "r0", {"axes": (1,)})],
        [("sum", "x")],
        [("concat", "x", "x")],
        # Other shapes of the same elements.
        [LINEAR, ("reshape", "r0", {"shape": (4, 5, 1)}), ("relu", "r1")],
        [("relu", "x"), ("reshape", "r0", {"shape": (2, 10)}), ("sum", "r1", {"axes": (0,)})],
        # What only the ops after a product read is made there.
        [("tanh", "x"), LINEAR, ("multiply", "r1", "r0")],
    ],
    "phases": [
        [("sum", "x", {"axes": (0,)}), ("subtract", "x", "r0")],
        [
            ("sum", "x", {"axes": (0,)}),
            ("subtract", "x", "r0"),
            ("multiply", "r1", "b"),
            ("relu", "r2"),
        ],
        [("relu", "x"), ("sum", "r0", {"axes": (0,)}), ("subtract", "r0", "r1")],
        [LINEAR, ("sum", "r0", {"axes": (0,)}), ("subtract", "r0", "r1")],
        [LINEAR, ("relu", "r0"), ("sum", "r1", {"axes": (0,)}), ("subtract", "r1", "r2")],
        [LINEAR, *VARIANCE, ("divide", "r2", "r4")],
        [("sum", "x", {"axes": (0,)}), ("tanh", "r0"), ("scale", "r1"), ("subtract", "x", "r2")],
        [("sum", "x", {"axes": (0,)}), ("subtract", "x", "r0"), ("sum", "r1", {"axes": (1,)})],
        [
            ("sum", "x", {"axes": (0,)}),
            ("subtract", "x", "r0"),
            ("relu", "r1"),
            ("sum", "r2", {"axes": (0,)}),
        ],
        [("sum", "x", {"axes": (0,)}), ("subtract", "x", "r0"), ("softmax", "r1"), ("relu", "r2")],
        [
            ("sum", "x", {"axes": (0,)}),
            ("subtract", "x", "r0"),
            ("tanh", "r0"),
            ("multiply", "r1", "r2"),
        ],
        # What is over another shape than the rows is made before them, or after.
        [("relu", "b"), ("broadcast", "r0", {"shape": (4, 5)})],
        [("relu", "b"), ("add", "x", "r0")],
        [LINEAR, ("add", "cube", "r0")],
        [("softmax", "x"), ("tanh", "b"), ("multiply", "r0", "r1")],
        [("tanh", "b"), LINEAR, ("multiply", "r1", "r0")],
        [("tanh", "b"), ("multiply", "x", "r0"), ("sum", "r1", {"axes": (0,)})],
        # Columns that do not read each other, one after the other.
        [
            ("sum", "x", {"axes": (0,)}),
            ("sum", "w", {"axes": (0,)}),
            ("add", "x", "r0"),
            ("add", "r1", "r2"),
        ],
        # What is kept of the columns, beside what is done with the rows.
        [("sum", "x", {"axes": (0,)}), ("add", "r0", "b"), ("subtract", "x", "r0")],
        # Means of rows.
        [("sum", "x", {"axes": (1,)}), ("reshape", "r0", {"shape": (4, 1)}), ("add", "x", "r1")],
    ],
}
REFUSED = [
    (
        "linear after matmul is a second contraction; a kernel has one",
        [("matmul", "x", "w"), ("linear", "r0", "w")],
    ),
    (
        "relu before linear gains nothing: put it into the type before it",
        [("relu", "x"), ("linear", "r0", "w")],
    ),
    (
        "tanh before linear gains nothing: it lies in memory all the same",
        [("tanh", "w"), ("linear", "x", "r0")],
    ),
    (
        "sum after linear gains nothing: it reads from memory what linear stores",
        [LINEAR, ("sum", "r0", {"axes": (0,)})],
    ),
    (
        "linear after tanh gains nothing: it reads from memory what tanh stores",
        [("sum", "x", {"axes": (0,)}), ("tanh", "r0"), ("linear", "x", "w", "r1")],
    ),
    (
        "concat is a kernel of its own",
        [("concat", "x", "x"), ("sum", "r0", {"axes": (0,)}), ("subtract", "r0", "r1")],
    ),
    (
        "the kernel of sum takes nothing after it, such as tanh",
        [("relu", "x"), ("sum", "r0", {"axes": (0,)}), ("tanh", "r1"), ("relu", "r2")],
    ),
    (
        "add before sum gains nothing: put it into the type before it",
        [("add", "x", "b"), ("sum", "r0")],
    ),
    (
        "sum after sum gains nothing: it reads from memory what sum stores",
        [("sum", "cube", {"axes": (0,)}), ("sum", "r0")],
    ),
    ("cross_entropy is a kernel of its own", [LINEAR, ("cross_entropy", "r0", "t")]),
    (
        "relu before softmax_grad gains nothing: it lies in memory all the same",
        [("relu", "x"), ("softmax_grad", "x", "r0")],
    ),
    (
        "softmax after softmax gains nothing: it reads from memory what softmax stores",
        [("softmax", "x"), ("softmax", "r0")],
    ),
    (
        "the kernel of sum takes nothing after it, such as relu",
        [("sum", "x", {"axes": (1,)}), ("relu", "r0")],
    ),
    ("cross_entropy is a kernel of its own", [("cross_entropy", "x", "t"), ("relu", "r0")]),
    ("tanh reads nothing that the others give", [("relu", "x"), ("tanh", "x")]),
    ("sum reads nothing that the others give", [("relu", "x"), ("sum", "x")]),
    ("the kernel of sum takes nothing after it, such as relu", [("sum", "x"), ("relu", "r0")]),
]


@pytest.mark.parametrize(("name", "lines"), [(n, b) for n, bodies in TAKEN.items() for b in bodies])
def test_bodies_that_are_one_kernel(name: str, lines: list[tuple[Any, ...]]):
    nodes = body(*lines)
    phases = joined(nodes, Order(nodes))
    assert name == ("phases" if phases.several else "anchor" if phases.bodies[0].anchor else "map")
    assert refusal(nodes) == ""


@pytest.mark.parametrize(("reason", "lines"), REFUSED)
def test_bodies_that_are_none(reason: str, lines: list[tuple[Any, ...]]):
    nodes = body(*lines)
    assert reason in refusal(nodes)


@pytest.mark.parametrize(
    ("parts", "reason", "instead"),
    [
        (
            (Linear[3, 4], Linear[4, 5]),
            "linear after linear is a second contraction",
            "Sequential[Linear[3, 4], Linear[4, 5]]",
        ),
        (
            (ReLU, Linear[3, 4]),
            "relu before linear gains nothing",
            "Sequential[ReLU, Linear[3, 4]]",
        ),
        (
            (Parallel[ReLU, Tanh], ReLU),
            "concat is a kernel of its own",
            "Sequential[Parallel[ReLU, Tanh], ReLU]",
        ),
        (
            (Linear[3, 3], Residual[Linear[3, 3]]),
            "second contraction",
            "Sequential[Linear[3, 3], Residual[Linear[3, 3]]]",
        ),
    ],
)
def test_fused_types_are_refused_when_they_are_made(parts: Any, reason: str, instead: str):
    with pytest.raises(FusionError) as caught:
        Fused[parts]
    message = str(caught.value)
    assert "cannot be one kernel" in message
    assert reason in message
    assert f"Write {instead}, one kernel each." in message


def test_fused_types_that_are_made():
    for parts in ((Residual[Tanh], ReLU), (Linear[3, 3], Residual[Sequential[Tanh, ReLU]])):
        assert issubclass(Fused[parts], Fused)
