"""Places in memory: nothing alive overlaps, and what must not share memory is refused."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from graphs import FINAL, choose, deep_step, emit, f32, graphs
from hypothesis import given, reject, settings
from hypothesis import strategies as st
from memory_plans import check_plan, flat, lying_in, packed, planned, refused, stateful
from timing import near_linear, quick

from noeira.errors import VerifyError
from noeira.ir.builder import Builder
from noeira.ir.graph import ComputeGraph
from noeira.ir.plan import ARENA, Choice, Place, Plan, Stage
from noeira.ir.text.dump import Dump
from noeira.ir.types import TensorType, padded
from noeira.passes.dce import DeadCodeElimination
from noeira.planning.first_fit import Span, collision, first_fit
from noeira.planning.memory import make_plan


def spans_of(rows: list[tuple[int, int, int]]) -> list[Span]:
    """Spans of (size, first, length of life)."""
    return [
        Span(f"v{i}", ARENA, size, first, first + life)
        for i, (size, first, life) in enumerate(rows)
    ]


SPANS = st.lists(
    st.tuples(st.integers(1, 400), st.integers(0, 40), st.integers(0, 40)), max_size=40
).map(spans_of)


def simple_first_fit(spans: list[Span]) -> dict[str, int]:
    """The same by its definition: try every place after something already placed."""
    placed: dict[str, tuple[Span, int]] = {}
    for span in sorted(spans, key=lambda s: (-s.size, s.first, s.name)):
        alive = [p for p in placed.values() if p[0].first <= span.last and span.first <= p[0].last]
        ends = sorted({0, *(at + padded(other.size) for other, at in alive)})
        free = (
            at
            for at in ends
            if all(at + padded(span.size) <= o or o + padded(s.size) <= at for s, o in alive)
        )
        placed[span.name] = span, next(free)
    return {name: at for name, (_, at) in placed.items()}


@settings(max_examples=400)
@given(SPANS)
def test_first_fit_is_what_its_definition_says(spans: list[Span]):
    offsets, arena = first_fit(spans)
    assert offsets == simple_first_fit(spans)
    assert arena == max((offsets[s.name] + padded(s.size) for s in spans), default=0)
    assert first_fit(spans[::-1]) == (offsets, arena)
    assert collision((span, offsets[span.name]) for span in spans) is None


@settings(max_examples=400)
@given(SPANS, st.lists(st.integers(0, 12), min_size=40, max_size=40))
def test_a_collision_is_two_that_are_alive_in_the_same_bytes(spans: list[Span], at: list[int]):
    placed = [(span, 64 * step) for span, step in zip(spans, at, strict=False)]
    pairs = [
        {a.name, b.name}
        for (a, low), (b, other) in itertools.combinations(placed, 2)
        if a.first <= b.last and b.first <= a.last
        if low < other + padded(b.size) and other < low + padded(a.size)
    ]
    found = collision(placed)
    assert {span.name for span in found} in pairs if found else not pairs


@given(SPANS)
def test_an_arena_is_between_the_largest_moment_and_the_sum(spans: list[Span]):
    _, arena = first_fit(spans)
    moments = range(max((s.last for s in spans), default=0) + 1)
    most = max(sum(padded(s.size) for s in spans if s.first <= at <= s.last) for at in moments)
    assert most <= arena <= sum(padded(s.size) for s in spans)


def test_spans_of_equal_life_lie_side_by_side_and_those_apart_share():
    offsets, arena = first_fit(
        spans_of([(64, 0, 1), (65, 1, 1), (10, 2, 0), (10, 3, 5), (200, 3, 0)])
    )
    assert offsets == {"v4": 0, "v1": 0, "v0": 128, "v2": 128, "v3": 256}
    assert arena == 320
    assert first_fit([]) == ({}, 0)


@pytest.mark.parametrize("dump", FINAL.values(), ids=FINAL)
def test_plans_of_networks(dump: Dump):
    plan = make_plan(dump.graph, choose, "c test")
    check_plan(plan)
    most = most_alive(plan)
    arena = [p for p in plan.places if p.root == ARENA and p.name not in lying_in(plan.graph)]
    works = sum(padded(c.choice.workspace) for c in plan.calls)
    assert most <= plan.arena <= sum(padded(p.size) for p in arena) + works


def most_alive(plan: Plan) -> int:
    """The bytes of the arena that are in use at the largest moment."""
    inside = lying_in(plan.graph)
    arena = [p for p in plan.places if p.root == ARENA and p.name not in inside]
    return max(
        sum(padded(p.size) for p in arena if p.first <= i <= p.last) + padded(call.choice.workspace)
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
    assert quick(lambda: plan(small), 0.3)
    assert near_linear(plan, small, twice)
