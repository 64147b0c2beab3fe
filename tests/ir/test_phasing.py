"""In which phase each part is done: the example of the text, and each rule of it."""

from __future__ import annotations

import re
from typing import Any

import pytest
from graphs import f32

from noeira.ir import phasing
from noeira.ir.body import joined
from noeira.ir.builder import Builder
from noeira.ir.forms import refusal
from noeira.ir.graph import Node, Value
from noeira.ir.phasing import Order

STAGES = ("before", "head", "anchor", "tail", "after")
LINE = re.compile(r"    %(\w+) = (\w+)\(([^)]*)\)(.*?)  +level (\d) +slot (\d) +(\w+) +phase (\d)")


def test_the_example_is_as_the_text_says() -> None:
    builder, expected = Builder("example"), list[tuple[Any, ...]]()
    short = {"mean", "old", "new"}
    values = {name: builder.input(name, f32(4, 5)) for name in "xz"}
    values["old"] = builder.input("old", f32(5))
    for name, op, read, attrs, *place in LINE.findall(phasing.__doc__ or ""):
        operands = (values[one.strip().removeprefix("%")] for one in read.split(","))
        made = builder.emit(op, *operands, hint=name, **({"axes": (0,)} if attrs else {}))
        assert isinstance(made, Value) and made.type == (f32(5) if name in short else f32(4, 5))
        values[name] = made
        level, slot, stage, phase = place
        expected.append((int(level), int(slot), STAGES.index(stage), int(phase)))
    assert len(expected) == 6
    order = Order(builder.nodes)
    assert [*zip(order.level, order.slot, order.stage, order.phase, strict=True)] == expected
    assert refusal(builder.nodes) == ""


def body(text: str) -> tuple[Node, ...]:
    """Nodes from lines `name = op operand …`; a sum says over which axes, `sum01`."""
    builder = Builder("body")
    shapes = {"x": (4, 5), "z": (4, 5), "w": (5, 5), "b": (5,), "c": (4, 1), "flat": (20,)}
    values = {name: builder.input(name, f32(*shape)) for name, shape in shapes.items()}
    for line in filter(str.strip, re.split(r"[\n;]", text)):
        name, _, op, *operands = line.split()
        attrs: dict[str, Any] = {}
        if op.startswith("sum"):
            op, attrs = "sum", {"axes": tuple(map(int, op.removeprefix("sum")))}
        if op == "flatten":
            op, attrs = "reshape", {"shape": (20,)}
        values[name] = builder.emit(op, *(values[o] for o in operands), hint=name, **attrs)
    return tuple(builder.nodes)


def shown(nodes: tuple[Node, ...]) -> str:
    """The phases, the names of what is made in each; anchors stand in brackets."""
    found = list[str]()
    for one in joined(nodes, Order(nodes)).bodies:
        before, after = ([part.outputs[0].name for part in side] for side in (one.head, one.tail))
        anchor = [f"[{one.anchor.outputs[0].name}]"] if one.anchor else []
        found.append(" ".join((*before, *anchor, *after)))
    return " | ".join(found)


RULES = {
    # Levels: what a tail takes, and what waits.
    "y = softmax x; t = tanh y": "[y] t",
    "y = linear x w; t = add y c": "[y] t",
    "m = sum0 x; t = tanh m": "[m] | t",
    "m = sum1 x; y = softmax x; t = tanh y": "[m] | [y] t",
    "y = linear x w; s = softmax y; t = multiply s y": "[y] | [s] t",
    "y = softmax x; f = flatten y; t = add f flat": "[y] t",
    "y = softmax x; r = linear y w; t = tanh r": "[y] | [r] t",
    # What only later levels read is done there, whatever it is read from.
    "t = tanh x; m = sum0 z; a = subtract t m": "[m] | t a",
    "m = sum0 x; g = tanh m; a = multiply x g; n = sum0 a; e = add n g": "[m] | g | a [n] | e",
    # Slots: one for each anchor; in a later one its tail may read an earlier one's result.
    "m = sum0 x; n = sum0 z; s = subtract x m; t = subtract s n": "[m] | [n] | s t",
    "m = sum0 x; y = softmax x; t = add y m": "[m] | [y] t",
    "y = softmax x; m = sum0 x; t = add y m": "[y] | [m] | t",
    "r = tanh x; m = sum0 r; y = softmax r": "r [m] | [y]",
    # Stages: what leads to an anchor, as late as may be.
    "a = relu x; y = softmax a": "a [y]",
    "a = relu x; y = softmax a; t = add y a": "a [y] t",
    "a = relu z; y = softmax x; t = add y a": "[y] a t",
    "a = relu b; y = softmax x; t = add y a": "a | [y] t",
    "a = relu b; s = add x a; y = softmax s": "a | s [y]",
    "a = relu x; y = softmax_grad a a": "a | [y]",
    "a = relu x; y = linear a w; t = add y a": "a | [y] t",
    "a = add x b; y = sum01 a": "a | [y]",
    "a = add x c; y = sum1 a": "a [y]",
    # The rest, as early as may be.
    "a = relu x; k = tanh a; m = sum0 a": "a k [m]",
    "a = relu z; k = tanh a; y = linear x w; t = add y a": "[y] a k t",
    "a = relu b; k = tanh a; s = add x a; y = softmax s": "a k | s [y]",
}


@pytest.mark.parametrize(("text", "phases"), RULES.items())
def test_each_rule(text: str, phases: str) -> None:
    assert shown(body(text)) == phases
