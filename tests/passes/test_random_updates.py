"""Random graphs whose updates cross, as they run from their places in memory: what the reference
says.
"""

from __future__ import annotations

from typing import Any

from graphs import arrays, emit, f32
from hypothesis import given, settings
from hypothesis import strategies as st
from memory_plans import check_plan, flat, planned
from plan_machine import check_run

from noeira.ir.graph import ComputeGraph
from noeira.ir.verify import verify
from noeira.passes.own import Own

# Elements of a member of the flat state, which begin 32 apart, and of most other values.
SIZE = 4


@st.composite
def crossing(draw: Any) -> ComputeGraph:
    """A graph with an input and states of its type, whose updates and outputs are any of its
    values; a flat state; states as long as packs with gaps and without.
    """
    builder, params, members = flat(SIZE)
    values = [builder.input("x", f32(SIZE)), *members]
    values += [builder.state(f"s{i}", f32(SIZE)) for i in range(draw(st.integers(1, 6)))]
    states = [*values[3:], builder.state("wide", f32(64)), builder.state("pair", f32(2 * SIZE))]
    values += states[-2:]

    def of(size: int) -> Any:
        return draw(st.sampled_from([v for v in values if v.type.size == size]))

    for _ in range(draw(st.integers(1, 10))):
        op = draw(st.sampled_from(("tanh", "softmax", "add", "reshape", "constant", "pack")))
        if op in ("tanh", "softmax"):
            made = emit(builder, op, draw(st.sampled_from(values)))
        elif op == "add":
            x = draw(st.sampled_from(values))
            made = emit(builder, op, x, of(x.type.size))
        elif op == "reshape":
            x = draw(st.sampled_from(values))
            made = emit(builder, op, x, shape=(x.type.size,))
        elif op == "constant":
            one = emit(builder, op, value=0.5)
            made = emit(builder, "broadcast", one, shape=(SIZE,))
        else:
            wide = draw(st.booleans())
            offsets = (draw(st.integers(0, 8)), 32) if wide else (0, SIZE)
            size = 64 if wide else 2 * SIZE
            made = emit(builder, op, of(SIZE), of(SIZE), size=size, offsets=offsets)
        values.append(made)
    for state in states:
        new = [v for v in values if v.type == state.type]
        if new and draw(st.booleans()):
            builder.update(state, draw(st.sampled_from(new)))
    if draw(st.booleans()):
        parts = of(SIZE), of(SIZE)
        whole = emit(builder, "pack", *parts, layout="net", size=64, offsets=(0, 32))
        values.append(whole)
        builder.update(params, whole)
    return builder.done(draw(st.lists(st.sampled_from(values), max_size=3)))


@settings(max_examples=300)
@given(crossing())
def test_updates_that_cross_give_what_the_graph_says(graph: ComputeGraph) -> None:
    before, own = verify(graph), Own()
    after = verify(own(before))
    own.check(before, after)
    plan = planned(after)
    check_plan(plan)
    check_run(plan, arrays(after))
