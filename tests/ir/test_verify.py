"""The rules of the IR: one broken graph for each, and the message that says so."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from graphs import STAGES, emit, f32, graphs
from hypothesis import given

from noeira.errors import VerifyError
from noeira.ir.builder import Builder
from noeira.ir.fused import close
from noeira.ir.graph import (
    Attrs,
    ComputeGraph,
    Group,
    Input,
    Node,
    Origin,
    Region,
    State,
    Update,
    Value,
)
from noeira.ir.layouts import Layout, Member, lay_out
from noeira.ir.op import op
from noeira.ir.text.dump import Dump
from noeira.ir.types import TensorType
from noeira.ir.verify import verify


def small() -> ComputeGraph:
    """Two nodes in a group, a flat state, a counter."""
    builder = Builder("small")
    layout = lay_out("net", {"w": (4, 3), "b": (3,)})
    builder.layouts.append(layout)
    x = builder.input("x", f32(2, 4))
    builder.input("target", TensorType("i32", (2,)), 3)
    w, b = (Value(m.name, f32(*m.shape)) for m in layout.members)
    builder.state("params", TensorType("f32", (64,), "net"), (w, b), ("zero()", "zero()"))
    n = builder.state("n", TensorType("i64", ()))
    builder.group("0", "LinearReLU[4, 3]")
    y = emit(builder, "linear", x, w, b, hint="y", group="0")
    z = emit(builder, "relu", y, hint="z", group="0")
    builder.update(n, emit(builder, "count", n, hint="n.next"))
    return builder.done([z])


GRAPH = small()
LAYOUT = GRAPH.layouts[0]
X, TARGET = (i.value for i in GRAPH.inputs)
LINEAR, RELU, COUNT = GRAPH.nodes
PARAMS, N = GRAPH.states
FUSED = close((LINEAR, RELU), {"z"}, Origin("0", "LinearReLU[4, 3]", "trace"))


def with_layout(*members: Member, size: int = 64) -> ComputeGraph:
    """The graph with another layout, and without its members."""
    params = replace(PARAMS, members=(), initial=())
    layouts = (Layout("net", size, members),)
    return replace(GRAPH, layouts=layouts, states=(params, N), nodes=(COUNT,), outputs=())


def with_state(**changes: Any) -> ComputeGraph:
    """The graph with another flat state."""
    return replace(GRAPH, states=(replace(PARAMS, **changes), N))


def with_nodes(*nodes: Node) -> ComputeGraph:
    """The graph with other nodes before the counter's."""
    return replace(GRAPH, nodes=(*nodes, COUNT))


def part_of(node: Node, index: int, **changes: Any) -> Node:
    """A fused node with one part of its body changed."""
    body = [*node.body]
    body[index] = replace(body[index], **changes)
    return replace(node, body=tuple(body))


W, B = PARAMS.members
WIDE = Value("y", f32(2, 5))
HEAD = {
    "a layout is defined twice": replace(GRAPH, layouts=(LAYOUT, LAYOUT)),
    "@net: b begins at 13, not at a multiple of 32": with_layout(Member("b", (3,), 13)),
    "@net: b begins before the end of the member above": with_layout(
        Member("w", (40,), 0), Member("b", (3,), 32)
    ),
    "@net: its members go past its end": with_layout(Member("w", (65,), 0)),
    "@net: w: [8, 4] nhwc @ 0 has not the axes of its order": with_layout(
        Member("w", (8, 4), 0, order="nhwc")
    ),
    "%x is f32[2, 3, 4] nlc, and must lie row major, as what callers give does": replace(
        GRAPH, inputs=(Input(Value("x", TensorType("f32", (2, 3, 4), order="nlc"))),)
    ),
    "%params: there is no layout @net": replace(GRAPH, layouts=()),
    "%params has not the size of @net": with_layout(size=96),
    "%params has members but no layout": with_state(value=Value("params", f32(64))),
    "the members of %params are not those of @net": with_state(members=(B, W)),
    "%params has 1 initial values for 2 members": with_state(initial=("zero()",)),
    "'a b' is no name: letters, digits, _ . ~ ^ only": replace(
        GRAPH, inputs=(Input(Value("a b", f32())),)
    ),
    "%x is defined twice": replace(GRAPH, inputs=(Input(X), Input(X))),
    "%x: there is no dtype 'f31'": replace(
        GRAPH, inputs=(Input(Value("x", TensorType("f31", ()))),)
    ),
    "%x: f32[2, 0] has an empty axis": replace(GRAPH, inputs=(Input(Value("x", f32(2, 0))),)),
    "%x: f32[8589934592, 268435456] has more bytes than memory can have": replace(
        GRAPH, inputs=(Input(Value("x", f32(2**33, 2**28))),)
    ),
    "%x: f32[2, -4] has a negative axis": replace(GRAPH, inputs=(Input(Value("x", f32(2, -4))),)),
    "%x is f32[2, 4]: only inputs of whole numbers have a limit": replace(
        GRAPH, inputs=(Input(X, 3),)
    ),
    "%target: nothing is below the limit 0": replace(GRAPH, inputs=(Input(X), Input(TARGET, 0))),
    "a group is declared twice": replace(GRAPH, groups=GRAPH.groups * 2),
    "region '0' is declared twice": replace(GRAPH, regions=(Region("0", "T"),) * 2),
    "region '0' lies in '1', which is not declared above": replace(
        GRAPH, regions=(Region("0", "T", "1"), Region("1", "T"))
    ),
}
NODES = {
    "%y is not defined above": with_nodes(RELU, LINEAR),
    "%y is f32[2, 3] above, and read as f32[2, 5]": with_nodes(
        LINEAR, replace(RELU, inputs=(WIDE,))
    ),
    "linear gives f32[2, 3], not f32[2, 5]": with_nodes(replace(LINEAR, outputs=(WIDE,)), RELU),
    "relu takes x, got 2 operands": with_nodes(LINEAR, replace(RELU, inputs=(X, X))),
    "linear takes x, weight, bias, got 1 operands": with_nodes(replace(LINEAR, inputs=(X,)), RELU),
    "linear: x f32[2, 4] and weight f32[2, 4] do not fit": with_nodes(
        replace(LINEAR, inputs=(X, X)), RELU
    ),
    "%x is defined twice": with_nodes(replace(LINEAR, outputs=(Value("x", f32(2, 3)),)), RELU),
    "no type asked for group '1~'": with_nodes(LINEAR, replace(RELU, group="1~")),
    "no type asked for region '1'": with_nodes(LINEAR, replace(RELU, region="1")),
    "the body joins regions '0' and ''": with_nodes(part_of(FUSED, 1, region="0")),
    "fused: a kernel is a body of plain nodes": with_nodes(replace(FUSED, body=())),
    "nodes were fused, but no type asked for it": with_nodes(replace(FUSED, group="")),
    "the body joins groups '0~' and '0'": with_nodes(part_of(FUSED, 1, group="0~")),
    "the body reads %x, which neither it nor its inputs define": with_nodes(
        replace(FUSED, inputs=(W, B))
    ),
    "the body defines %y twice": with_nodes(part_of(FUSED, 1, outputs=LINEAR.outputs)),
    "no line of the body defines %x": with_nodes(replace(FUSED, outputs=(X,))),
    "%y is f32[2, 3] above, and the body reads it as f32[2, 5]": with_nodes(
        part_of(FUSED, 1, inputs=(WIDE,))
    ),
    "%z is f32[2, 3] in the body, f32[2, 5] outside": with_nodes(
        replace(FUSED, outputs=(Value("z", f32(2, 5)),))
    ),
    "relu gives f32[2, 3], not f32[2, 5]": with_nodes(
        replace(
            part_of(FUSED, 1, outputs=(Value("z", f32(2, 5)),)), outputs=(Value("z", f32(2, 5)),)
        )
    ),
}
END = {
    "%a, returned or the update of a state, is not defined": replace(
        GRAPH, outputs=(Value("a", f32()),)
    ),
    "%z, returned or the update of a state, is f32[2, 3], not f32[]": replace(
        GRAPH, outputs=(Value("z", f32()),)
    ),
    "%x is updated, but is no state": replace(GRAPH, updates=(Update(X, X),)),
    "%n is updated twice": replace(GRAPH, updates=GRAPH.updates * 2),
    "%n is i64[], its update f32[2, 4]": replace(GRAPH, updates=(Update(N.value, X),)),
}


def message(graph: ComputeGraph) -> str:
    """What the verifier says of a graph."""
    with pytest.raises(VerifyError) as caught:
        verify(graph, after="vjp")
    return str(caught.value)


def test_the_graphs_that_are_broken_here_are_fine_otherwise():
    assert verify(GRAPH) is GRAPH
    verify(with_nodes(FUSED))
    verify(with_layout(*LAYOUT.members))


@pytest.mark.parametrize(("rule", "graph"), HEAD.items())
def test_rules_of_the_head(rule: str, graph: ComputeGraph):
    assert message(graph) == f"{rule} (after vjp)\n  at the head of @small"


@pytest.mark.parametrize(("rule", "graph"), NODES.items())
def test_rules_of_nodes(rule: str, graph: ComputeGraph):
    first, place, *lines = message(graph).split("\n")
    assert first.startswith(rule)
    assert first.endswith(" (after vjp)")
    assert place.startswith("  line ")
    (marked,) = (i for i, line in enumerate(lines) if line.startswith("  > "))
    bad = graph.nodes[marked]
    assert (
        str(graph).split("\n")[int(place.split()[1]) - 3].lstrip().startswith(str(bad.outputs[0]))
    )


@pytest.mark.parametrize(("rule", "graph"), END.items())
def test_rules_of_the_end(rule: str, graph: ComputeGraph):
    assert message(graph) == f"{rule} (after vjp)\n  at the end of @small"


@pytest.mark.parametrize(
    ("offset", "order", "wanted"),
    [
        (40, "", "pack holds 3 elements @ 40; in @net lies b: [3] @ 32 (after vjp)"),
        (32, "", "pack holds 12 elements @ 0; in @net lies w: [3, 2, 2] nlc @ 0 (after vjp)"),
        (32, "nlc", ""),
    ],
)
def test_a_pack_with_a_layout_holds_its_members(offset: int, order: str, wanted: str):
    member = Member("w", (3, 2, 2), 0, order="nlc") if offset == 32 else LAYOUT.members[0]
    builder = Builder("packed")
    builder.layouts.append(replace(LAYOUT, members=(member, LAYOUT.members[1])))
    parts = [builder.input(name, f32(*shape)) for name, shape in (("x", (3, 2, 2)), ("y", (3,)))]
    orders = (order, "") if order else ()
    whole = builder.emit("pack", *parts, layout="net", size=64, offsets=(0, offset), orders=orders)
    graph = builder.done([whole])
    assert message(graph).startswith(wanted) if wanted else verify(graph)


def test_the_whole_message(golden: Callable[..., None]):
    names = [Value(f"v{i}", f32(3)) for i in range(9)]
    nodes = [
        Node(op("relu"), (a,), (b,), Attrs(), Origin("net", "ReLU", "trace"))
        for a, b in pairwise(names)
    ]
    nodes[4] = replace(nodes[4], inputs=(Value("v9", f32(3)),))
    graph = ComputeGraph("chain", (), (Input(names[0]),), (), (), tuple(nodes), (), (names[-1],))
    golden(message(graph))


def classifier(limit: int | None, resident: bool = False, order: int | None = 9) -> ComputeGraph:
    """Cross-entropy of two rows of three classes, perhaps taken from nine; every index op."""
    builder = Builder("classifier")
    z, scalar, rows = (
        builder.input(n, f32(*s)) for n, s in (("z", (2, 3)), ("d", ()), ("r", (2,)))
    )
    if resident:
        data = builder.input("data.target", TensorType("i32", (3, 3)), limit)
        flat = builder.emit("reshape", data, shape=(9,))
        numbers = builder.input("order", TensorType("i32", (9,)), order)
        cursor = builder.state("cursor", TensorType("i64", ()))
        target = builder.emit("take", flat, numbers, cursor, rows=2, hint="target")
    else:
        target = builder.input("target", TensorType("i32", (2,)), limit)
    builder.emit("cross_entropy", z, target)
    builder.emit("cross_entropy_grad", z, target, rows, scalar)
    builder.emit("cross_entropy_grad_grad", z, z, target, rows, scalar)
    builder.emit("top_k", z, target)
    return builder.done([])


@pytest.mark.parametrize("resident", [False, True])
def test_an_index_stays_below_what_it_reads(resident: bool):
    verify(classifier(3, resident))
    verify(classifier(2, resident))
    fine = classifier(3, resident)
    beyond = "%target may be up to 1999999999, but {} reads 3 classes (after vjp)"
    for node in fine.nodes:
        if node.op.name in ("take", "reshape"):
            continue
        before = [n for n in fine.nodes if n.op.name in ("take", "reshape")]
        (first, *_) = message(
            replace(classifier(2_000_000_000, resident), nodes=(*before, node), outputs=())
        ).split("\n")
        assert first == beyond.format(node.op.name)


def test_an_index_has_a_limit():
    said = "%target has no limit, but cross_entropy reads 3 classes: write %target: i32[2] < 3"
    assert message(classifier(None)).startswith(said)
    said = "nothing limits %target, but cross_entropy reads 3 classes"
    assert message(classifier(None, resident=True)).startswith(said)
    said = "%order may be up to 9, but take reads 9 samples"
    assert message(classifier(3, resident=True, order=10)).startswith(said)
    said = "%order has no limit, but take reads 9 samples: write %order: i32[9] < 9"
    assert message(classifier(3, resident=True, order=None)).startswith(said)


@pytest.mark.parametrize(("number", "fine"), [(2.0, True), (3.0, False), (-1.0, False)])
def test_a_constant_index(number: float, fine: bool):
    builder = Builder("one")
    target = builder.emit("constant", value=number, dtype="i32")
    builder.emit("cross_entropy", builder.input("z", f32(3)), target)
    if fine:
        verify(builder.done([]))
    else:
        assert "but cross_entropy reads 3 classes" in message(builder.done([]))


def test_indices_side_by_side_keep_the_larger_limit():
    builder = Builder("joined")
    parts = [builder.input(f"i{n}", TensorType("i32", (n,)), n + 1) for n in (1, 2)]
    target = builder.emit("concat", *parts)
    wide = builder.emit("pad", target, starts=(1,), lengths=(5,))
    builder.emit(
        "cross_entropy", builder.input("z", f32(2, 3)), builder.emit("slice", wide, lengths=(2,))
    )
    verify(builder.done([]))
    builder.emit("cross_entropy", builder.input("u", f32(3, 2)), target, hint="u.loss")
    assert message(builder.done([])).startswith("%concat may be up to 2, but cross_entropy reads 2")


def test_the_group_of_a_stamp():
    assert (
        GRAPH.group_of("0~")
        == GRAPH.group_of("0^")
        == GRAPH.group_of("0")
        == Group("0", "LinearReLU[4, 3]")
    )
    with pytest.raises(KeyError):
        GRAPH.group_of("1")


def test_a_state_without_members_begins_once():
    graph = replace(GRAPH, states=(PARAMS, State(N.value, (), ("zero()", "zero()"))))
    assert message(graph).startswith("%n has 2 initial values for 0 members")


@pytest.mark.parametrize("dump", STAGES.values(), ids=STAGES)
def test_every_stage_verifies(dump: Dump):
    verify(dump.graph)


@given(graphs(stamps=("", "0", "0~")))
def test_random_graphs_verify(graph: ComputeGraph):
    verify(graph)
