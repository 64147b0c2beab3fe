"""Places in memory: nothing alive overlaps, and what must not share memory is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from graphs import FINAL, choose, deep_step, emit, f32, graphs, near_linear, seconds
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from noeira.errors import VerifyError
from noeira.ir.graph import Builder, ComputeGraph, Value
from noeira.ir.plan import ARENA, Choice, Place, Plan, Stage
from noeira.ir.storage import Memory
from noeira.ir.text import Dump
from noeira.ir.types import ALIGNMENT, TensorType, lay_out
from noeira.passes.dce import DeadCodeElimination
from noeira.passes.schedule import Schedule
from noeira.planning.first_fit import Span, first_fit
from noeira.planning.memory import has_gaps, make_plan


def spans_of(rows: list[tuple[int, int, int]]) -> list[Span]:
    """Spans of (size, first, length of life)."""
    return [
        Span(f"v{i}", ARENA, size, first, first + life)
        for i, (size, first, life) in enumerate(rows)
    ]


SPANS = st.lists(
    st.tuples(st.integers(1, 400), st.integers(0, 40), st.integers(0, 40)), max_size=40
).map(spans_of)


def rounded(size: int) -> int:
    """Up to the next multiple of the alignment."""
    return -(-size // ALIGNMENT) * ALIGNMENT


def simple_first_fit(spans: list[Span]) -> dict[str, int]:
    """The same by its definition: try every place after something already placed."""
    placed: dict[str, tuple[Span, int]] = {}
    for span in sorted(spans, key=lambda s: (-s.size, s.first, s.name)):
        alive = [p for p in placed.values() if p[0].first <= span.last and span.first <= p[0].last]
        ends = sorted({0, *(at + rounded(other.size) for other, at in alive)})
        free = (
            at
            for at in ends
            if all(at + rounded(span.size) <= o or o + rounded(s.size) <= at for s, o in alive)
        )
        placed[span.name] = span, next(free)
    return {name: at for name, (_, at) in placed.items()}


@settings(max_examples=400)
@given(SPANS)
def test_first_fit_is_what_its_definition_says(spans: list[Span]):
    offsets, arena = first_fit(spans)
    assert offsets == simple_first_fit(spans)
    assert arena == max((offsets[s.name] + rounded(s.size) for s in spans), default=0)
    assert first_fit(spans[::-1]) == (offsets, arena)


@given(SPANS)
def test_an_arena_is_between_the_largest_moment_and_the_sum(spans: list[Span]):
    _, arena = first_fit(spans)
    moments = range(max((s.last for s in spans), default=0) + 1)
    most = max(sum(rounded(s.size) for s in spans if s.first <= at <= s.last) for at in moments)
    assert most <= arena <= sum(rounded(s.size) for s in spans)


def test_spans_of_equal_life_lie_side_by_side_and_those_apart_share():
    offsets, arena = first_fit(
        spans_of([(64, 0, 1), (65, 1, 1), (10, 2, 0), (10, 3, 5), (200, 3, 0)])
    )
    assert offsets == {"v4": 0, "v1": 0, "v0": 128, "v2": 128, "v3": 256}
    assert arena == 320
    assert first_fit([]) == ({}, 0)


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
    ends = [rounded(p.offset + p.size) for p in arena] + [rounded(at + size) for at, size in works]
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
            if has_gaps(node):
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


@pytest.mark.parametrize("dump", FINAL.values(), ids=FINAL)
def test_plans_of_networks(dump: Dump):
    plan = make_plan(dump.graph, choose, "c test")
    check_plan(plan)
    most = most_alive(plan)
    arena = [p for p in plan.places if p.root == ARENA and p.name not in lying_in(plan.graph)]
    works = sum(rounded(c.choice.workspace) for c in plan.calls)
    assert most <= plan.arena <= sum(rounded(p.size) for p in arena) + works


def most_alive(plan: Plan) -> int:
    """The bytes of the arena that are in use at the largest moment."""
    inside = lying_in(plan.graph)
    arena = [p for p in plan.places if p.root == ARENA and p.name not in inside]
    return max(
        sum(rounded(p.size) for p in arena if p.first <= i <= p.last)
        + rounded(call.choice.workspace)
        for i, call in enumerate(plan.calls)
    )


@settings(max_examples=300)
@given(graphs(nodes=16))
def test_plans_of_random_graphs(graph: ComputeGraph):
    try:
        plan = planned(graph)
    except VerifyError:
        reject()
    check_plan(plan)
    check_plan(planned(DeadCodeElimination()(graph)))


def test_a_dead_value_has_a_place_for_one_call():
    builder = Builder("dead")
    x = builder.input("x", f32(3))
    emit(builder, "tanh", x, hint="dead")
    plan = planned(builder.done([emit(builder, "relu", x, hint="y")]))
    assert plan.place["dead"] == Place("dead", ARENA, 0, 12, 0, 0)


def test_values_inside_a_fused_body_have_no_place():
    plan = make_plan(FINAL["mlp forward"].graph, choose, "c test")
    assert "0.linear" not in plan.place
    assert "0.relu" in plan.place


def test_peak_bytes_are_arena_inputs_states_and_outputs():
    plan = make_plan(FINAL["mlp step"].graph, choose, "c test")
    params = plan.graph.state("params").value.type.nbytes
    own = 4 * 5 * 4 + 4 * 4 + 3 * params + 4 + 8 + 8 + 8 + 4
    assert plan.peak_bytes() == plan.arena + own


def stateful() -> tuple[Builder, Any, Any]:
    """An input and a state of one type."""
    builder = Builder("stateful")
    return builder, builder.input("x", f32(4)), builder.state("s", f32(4))


def refused(builder: Builder, outputs: list[Any] | None = None) -> str:
    """Why there is no plan for a graph as it stands."""
    with pytest.raises(VerifyError) as caught:
        make_plan(builder.done(outputs or []), choose, "c test")
    return str(caught.value)


def test_an_update_is_written_into_its_state():
    builder, x, s = stateful()
    builder.update(s, emit(builder, "relu", x, hint="y"))
    assert planned(builder.done([])).place["y"].root == "state s"


def test_a_state_read_after_its_update_is_refused():
    builder, x, s = stateful()
    builder.update(s, emit(builder, "relu", x, hint="y"))
    emit(builder, "tanh", s)
    assert refused(builder) == "%s is read after %y has taken its place: copy it before"


def test_a_view_of_a_state_read_after_its_update_is_refused():
    builder, x, s = stateful()
    view = emit(builder, "reshape", emit(builder, "reshape", s, shape=(2, 2)), shape=(4, 1))
    builder.update(s, emit(builder, "relu", x, hint="y"))
    emit(builder, "tanh", view)
    assert refused(builder) == "%s is read after %y has taken its place: copy it before"


def test_a_member_read_after_the_update_of_its_state_is_refused():
    builder, params, members = flat()
    builder.update(params, emit(builder, "copy", params_like(builder, params), hint="new"))
    emit(builder, "tanh", members[1])
    assert refused(builder) == "%params is read after %new has taken its place: copy it before"


def flat() -> tuple[Builder, Any, list[Value]]:
    """A flat state of two members without gaps."""
    builder = Builder("flat")
    layout = lay_out("net", {"w": (32,), "u": (32,)})
    builder.layouts.append(layout)
    members = [Value(m.name, f32(*m.shape)) for m in layout.members]
    return builder, builder.state("params", TensorType("f32", (64,), "net"), members), members


def params_like(builder: Builder, params: Any) -> Any:
    """An input of the type of the parameters."""
    return builder.input("flat", params.type)


def packed(builder: Builder, *parts: Any) -> Any:
    """The parts of the flat state side by side."""
    return emit(builder, "pack", *parts, layout="net", size=64, offsets=(0, 32), hint="p")


def test_a_pack_may_update_a_flat_state():
    builder, params, _ = flat()
    x = builder.input("x", f32(32))
    builder.update(params, packed(builder, *(emit(builder, op, x) for op in ("relu", "tanh"))))
    plan = planned(builder.done([]))
    check_plan(plan)
    assert plan.place["tanh"] == Place("tanh", "state params", 128, 128, 0, 2)


def test_a_state_read_after_a_part_of_its_update_was_written_is_refused():
    builder, params, (w, _) = flat()
    first = emit(builder, "relu", builder.input("x", f32(32)))
    builder.update(params, packed(builder, first, emit(builder, "tanh", w)))
    assert refused(builder) == "%params is read after %p has taken its place: copy it before"


def test_a_part_that_reads_what_it_overwrites_is_refused():
    builder, params, (w, _) = flat()
    first = emit(builder, "relu", w)
    builder.update(
        params, packed(builder, first, emit(builder, "tanh", builder.input("x", f32(32))))
    )
    assert refused(builder) == "relu cannot update %params in place: copy %params before"


def test_an_op_that_cannot_work_in_place_is_refused():
    builder, _, s = stateful()
    builder.update(s, emit(builder, "softmax", s))
    assert refused(builder) == "softmax cannot update %s in place: copy %s before"


def test_element_wise_ops_work_in_place():
    """On any operand of the result's size, or several."""
    builder, x, s = stateful()
    builder.update(s, emit(builder, "add", emit(builder, "reshape", s, shape=(4,)), x, hint="y"))
    plan = planned(builder.done([]))
    check_plan(plan)
    assert plan.place["y"].root == "state s"
    builder, _, s = stateful()
    builder.update(s, emit(builder, "multiply", s, s))
    check_plan(planned(builder.done([])))


def test_an_op_works_in_place_only_on_the_operand_that_it_allows():
    builder = Builder("counters")
    a, b = (builder.state(n, TensorType("i64", ())) for n in "ab")
    ok = builder.input("ok", TensorType("bool", ()))
    builder.update(b, emit(builder, "record_bad", a, b, ok))
    assert refused(builder) == "record_bad cannot update %b in place: copy %b before"
    builder.updates.clear()
    builder.update(a, emit(builder, "record_bad", a, b, ok, hint="new"))
    assert planned(builder.done([])).place["new"].root == "state a"
    builder.nodes[:] = builder.nodes[1:]
    both = replace(builder.nodes[0], inputs=(a, a, ok))
    builder.nodes[:] = [both]
    assert refused(builder) == "record_bad cannot update %a in place: copy %a before"


@pytest.mark.parametrize("what", ["x", "s", "constant", "returned", "twice"])
def test_an_update_that_has_a_place_already_is_refused(what: str):
    builder, x, s = stateful()
    other = builder.state("other", f32(4))
    y = emit(builder, "relu", x, hint="y")
    if what == "returned":
        builder.update(s, y)
        assert refused(builder, [y]) == "%y is returned but has a place already: copy it"
        return
    if what == "constant":
        s = builder.state("one", f32())
        builder.update(s, emit(builder, "constant", value=2.0, hint="c"))
    elif what == "twice":
        builder.update(other, y)
        builder.update(s, y)
    else:
        builder.update(s, {"x": x, "s": other}[what])
    new = builder.updates[-1].new
    assert refused(builder) == f"{s} cannot take {new}, which has a place already: copy it"


@pytest.mark.parametrize("what", ["x", "member", "view", "constant", "pack", "twice"])
def test_a_result_that_has_a_place_already_is_refused(what: str):
    builder, _, (w, _) = flat()
    x = builder.input("x", f32(32))
    y, z = emit(builder, "relu", x, hint="y"), emit(builder, "tanh", x, hint="z")
    value = {
        "x": x,
        "member": w,
        "view": emit(builder, "reshape", y, shape=(4, 8)),
        "constant": emit(builder, "constant", value=2.0),
        "pack": packed(builder, y, z) if what == "pack" else None,
        "twice": y,
    }[what]
    assert (
        refused(builder, [value, value]) == f"{value} is returned but has a place already: copy it"
    )


@pytest.mark.parametrize("what", ["x", "member", "constant", "returned", "packed", "twice"])
def test_a_part_that_has_a_place_already_is_refused(what: str):
    builder, _, (_, u) = flat()
    x = builder.input("x", f32(32))
    y, z = emit(builder, "relu", x, hint="y"), emit(builder, "tanh", x, hint="z")
    one = emit(builder, "constant", value=2.0)
    size, outputs = 32, list[Any]()
    if what == "packed":
        emit(builder, "pack", y, size=32, offsets=(0,))
    if what == "returned":
        outputs = [y]
    if what == "constant":
        size = 1
    part = {"x": x, "member": u, "constant": one}.get(what, y)
    parts = (part, part) if what == "twice" else (part, z)
    emit(builder, "pack", *parts, size=64, offsets=(0, size))
    assert refused(builder, outputs) == f"{part} is packed but has a place already: copy it"


def test_what_a_view_is_all_of_lies_where_the_view_must():
    """A view that is updated with, packed or returned costs no copy."""
    builder, params, _ = flat()
    x, s = builder.input("x", f32(32)), builder.state("s", f32(2, 16))
    made = [emit(builder, name, x, hint=name) for name in ("relu", "tanh", "sigmoid", "softplus")]
    views = [emit(builder, "reshape", value, shape=(2, 16)) for value in made]
    builder.update(s, views[0])
    builder.update(params, packed(builder, *views[1:3]))
    plan = planned(builder.done([views[3]]))
    check_plan(plan)
    places = [plan.place[value.name] for value in made]
    assert [(p.root, p.offset) for p in places] == [
        ("state s", 0),
        ("state params", 0),
        ("state params", 128),
        ("output reshape.3", 0),
    ]
    assert plan.arena == 0


def test_a_pack_in_a_pack_and_a_view_of_a_part():
    builder = Builder("nested")
    x = builder.input("x", f32(32))
    y, z = emit(builder, "relu", x, hint="y"), emit(builder, "tanh", x, hint="z")
    inner = emit(builder, "pack", y, size=40, offsets=(4,), hint="inner")
    outer = emit(builder, "pack", z, inner, size=128, offsets=(32, 64), hint="outer")
    view = emit(builder, "reshape", y, shape=(4, 8), hint="view")
    outputs = [emit(builder, "tanh", view), emit(builder, "sum", outer)]
    plan = planned(builder.done(outputs))
    check_plan(plan)
    assert (plan.place["view"].offset, plan.place["inner"].offset) == (4 * 68, 4 * 64)


def test_literals_lie_in_the_program():
    builder = Builder("literals")
    x = builder.input("x", f32(3))
    texts = []
    for value, dtype in (
        (1.0, "f32"),
        (-0.0, "f32"),
        (1e-08, "f32"),
        (float("inf"), "f32"),
        (3.0, "i64"),
    ):
        made = emit(builder, "constant", value=value, dtype=dtype)
        texts.append((made.name, made))
    plan = planned(builder.done([emit(builder, "add", x, texts[0][1])]))
    roots = [plan.place[name].root for name, _ in texts]
    assert roots == ["literal 1.0", "literal -0.0", "literal 1e-08", "literal inf", "literal 3"]
    assert plan.place["constant"].owner == "1.0"


def test_planning_is_quick_and_near_linear():
    def plan(graph: ComputeGraph) -> Plan:
        return make_plan(
            graph, lambda node: Choice((Stage("x"),), 256 * (node.op.kind == "row")), "c"
        )

    small, twice = deep_step(166), deep_step(332)
    assert seconds(lambda: plan(small)) < 0.3
    assert near_linear(plan, small, twice)
