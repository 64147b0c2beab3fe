"""The structure of nodes: the same whatever their values are called, another for any difference
that a kernel could have.
"""

from __future__ import annotations

from typing import Any

import pytest

from noeira.ir.builder import Builder
from noeira.ir.graph import Node
from noeira.ir.structure import asked_once, structure
from noeira.ir.types import TensorType

ROWS, COLUMNS = TensorType("f32", (3, 5)), TensorType("f32", (5,))


def pair(
    *names: str, reads: tuple[int, int] = (1, 2), type: TensorType = ROWS, factor: float = 2.0
) -> tuple[Node, ...]:
    """A scale of the first value, then an add of two of these: the inputs x and y, the scaled."""
    builder = Builder("pair")
    x, y = (builder.input(name, type) for name in names)
    values = x, y, builder.emit("scale", x, factor=factor)
    builder.emit("add", *(values[i] for i in reads))
    return tuple(builder.nodes)


def test_names_do_not_matter() -> None:
    assert structure(pair("x", "y")) == structure(pair("left", "right"))


@pytest.mark.parametrize(
    "other",
    [
        *({"reads": (2, 1)}, {"reads": (0, 2)}, {"reads": (0, 1)}, {"reads": (2, 2)}),
        *({"type": COLUMNS}, {"factor": 3.0}),
    ],
    ids=str,
)
def test_who_reads_whom_types_and_attributes_do(other: dict[str, Any]) -> None:
    assert structure(pair("x", "y")) != structure(pair("x", "y", **other))


def test_types_of_operands_do_where_results_have_one() -> None:
    builder = Builder("sums")
    for name, type in (("x", ROWS), ("y", COLUMNS)):
        builder.emit("sum", builder.input(name, type))
    assert len({structure([node]) for node in builder.nodes}) == 2


def test_what_is_read_outside_does() -> None:
    nodes = pair("x", "y")
    scaled, added = (node.outputs[0] for node in nodes)
    found = [structure(nodes, results) for results in ((), (added,), (scaled, added))]
    assert len(set(found)) == 3


def test_one_of_each_structure_is_asked() -> None:
    nodes = [*pair("x", "y"), *pair("p", "q"), *pair("x", "y", type=COLUMNS)]
    asked = list[Node]()

    def ask(node: Node) -> str:
        asked.append(node)
        return f"{node.op.name} {node.outputs[0].type}"

    answers = asked_once(nodes, ask)
    assert answers == [f"{node.op.name} {node.outputs[0].type}" for node in nodes]
    assert asked == [nodes[0], nodes[1], nodes[4], nodes[5]]
