"""What tests of places in memory plan and look at."""

from __future__ import annotations

from typing import Any

import pytest
from graphs import choose, emit, f32

from noeira.errors import VerifyError
from noeira.ir.builder import Builder
from noeira.ir.graph import ComputeGraph, Value
from noeira.ir.layouts import lay_out
from noeira.ir.plan import ARENA, Plan
from noeira.ir.storage import Memory, leaves_gaps
from noeira.ir.types import ALIGNMENT, TensorType, padded
from noeira.passes.schedule import Schedule
from noeira.planning.memory import make_plan


def planned(graph: ComputeGraph) -> Plan:
    """The plan of a graph that is scheduled first."""
    return make_plan(Schedule()(graph), choose, "c test")


def check_plan(plan: Plan) -> None:
    """What must hold of every plan."""
    graph, calls = plan.graph, len(plan.calls)
    assert [call.node for call in plan.calls] == list(graph.launching())
    needed = {v.name for n in graph.launching() for v in (*n.inputs, *n.outputs)}
    assert needed <= set(plan.place)
    values = {v.name: v for v in graph.values()}
    for place in plan.places:
        assert place.kind == "literal" or place.size == values[place.name].type.nbytes
        assert 0 <= place.first <= place.last <= calls
    check_lives(plan)
    check_views(plan)
    arena = [p for p in plan.places if p.root == ARENA]
    works = [(c.workspace, c.choice.workspace) for c in plan.calls if c.choice.workspace]
    ends = [padded(p.offset + p.size) for p in arena] + [padded(at + size) for at, size in works]
    assert plan.arena == max(ends, default=0)
    assert all(at % ALIGNMENT == 0 for at, _ in works)
    for i, call in enumerate(plan.calls):
        for place in arena:
            if call.choice.workspace and place.first <= i <= place.last:
                assert apart(place.offset, place.size, call.workspace, call.choice.workspace)


def check_lives(plan: Plan) -> None:
    """A value is in its place from the call that makes it to the last that reads it, alone."""
    graph, inside = plan.graph, lying_in(plan.graph)
    for i, call in enumerate(plan.calls):
        for value in (*call.node.inputs, *call.node.outputs):
            place = plan.place[value.name]
            assert place.kind == "literal" or place.first <= i <= place.last
    for value in graph.results():
        assert plan.place[value.name].last == len(plan.calls)
    arena = [p for p in plan.places if p.root == ARENA and p.name not in inside]
    for number, a in enumerate(arena):
        assert a.offset % ALIGNMENT == 0
        for b in arena[number + 1 :]:
            alive = a.first <= b.last and b.first <= a.last
            assert not alive or apart(a.offset, a.size, b.offset, b.size), (a, b)


def check_views(plan: Plan) -> None:
    """Views, parts of packs, members and updates lie inside what they belong to."""
    graph, place = plan.graph, plan.place
    for node in graph.nodes:
        if node.op.name == "reshape" and node.outputs[0].name in place:
            a, b = place[node.inputs[0].name], place[node.outputs[0].name]
            assert (a.root, a.offset, a.first, a.last) == (b.root, b.offset, b.first, b.last)
        if node.op.name == "pack":
            whole = place[node.outputs[0].name]
            item = whole.size // node.outputs[0].type.size
            for part, offset in zip(node.inputs, node.attrs.offsets, strict=True):  # type: ignore[attr-defined]
                assert place[part.name].root == whole.root
                assert place[part.name].offset == whole.offset + offset * item
            if leaves_gaps(node):
                assert (whole.first, whole.last) == (0, len(plan.calls))
    for given_value in graph.inputs:
        assert place[given_value.value.name].root == f"input {given_value.value.name}"
    for state in graph.states:
        whole = place[state.value.name]
        assert (whole.root, whole.offset) == (f"state {state.value.name}", 0)
        for member in state.members:
            assert place[member.name].root == whole.root
            assert place[member.name].offset + place[member.name].size <= whole.size
    for update in graph.updates:
        assert place[update.new.name].root == f"state {update.state.name}"
    for value in graph.outputs:
        assert place[value.name].root == f"output {value.name}"


def lying_in(graph: ComputeGraph) -> set[str]:
    """The values that lie in the memory of another one."""
    memory = Memory(graph)
    packed = {v.name for n in graph.nodes if n.op.name == "pack" for v in n.inputs}
    return {*memory.inside, *packed, *(memory.base(name)[0] for name in packed)}


def apart(a: int, a_size: int, b: int, b_size: int) -> bool:
    """Whether two stretches of bytes do not overlap."""
    return a + a_size <= b or b + b_size <= a


def stateful() -> tuple[Builder, Any, Any]:
    """An input and a state of one type."""
    builder = Builder("stateful")
    return builder, builder.input("x", f32(4)), builder.state("s", f32(4))


def refused(builder: Builder, outputs: list[Any] | None = None) -> str:
    """Why there is no plan for a graph as it stands."""
    with pytest.raises(VerifyError) as caught:
        make_plan(builder.done(outputs or []), choose, "c test")
    return str(caught.value)


def flat(size: int = 32) -> tuple[Builder, Any, list[Value]]:
    """A flat state of two members, without gaps if they have 32 elements each."""
    builder = Builder("flat")
    layout = lay_out("net", {"w": (size,), "u": (size,)})
    builder.layouts.append(layout)
    members = [Value(m.name, f32(*m.shape)) for m in layout.members]
    return builder, builder.state("params", TensorType("f32", (64,), "net"), members), members


def packed(builder: Builder, *parts: Any) -> Any:
    """The parts of the flat state side by side."""
    return emit(builder, "pack", *parts, layout="net", size=64, offsets=(0, 32), hint="p")
