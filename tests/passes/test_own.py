"""Copies where a value needs a place of its own."""

from __future__ import annotations

from typing import Any

import pytest
from graphs import arrays, choose, emit, f32
from memory_plans import flat, packed
from plan_machine import check_run

from noeira.ir.builder import Builder
from noeira.ir.graph import ComputeGraph, Value
from noeira.ir.layouts import lay_out
from noeira.ir.plan import Plan
from noeira.ir.types import TensorType
from noeira.ir.verify import verify
from noeira.passes.own import Own
from noeira.passes.schedule import Schedule
from noeira.planning.memory import make_plan


def owned(graph: ComputeGraph) -> tuple[list[str], Plan]:
    """The copies that the pass makes, and the plan of what it gives."""
    before, own = verify(graph), Own()
    after = verify(own(before))
    own.check(before, after)
    copies = [f"{n.outputs[0]} of {n.inputs[0]}" for n in after.nodes if n.origin.by == "own"]
    assert own(after) is after
    return copies, make_plan(verify(Schedule()(after)), choose, "c test")


def stateful(*names: str) -> tuple[Builder, list[Any]]:
    """A builder with states of three elements."""
    builder = Builder("test")
    return builder, [builder.state(name, f32(3)) for name in names]


def test_what_is_in_its_place_is_left_alone() -> None:
    builder, (s,) = stateful("s")
    y = emit(builder, "relu", s, hint="y")
    builder.update(s, emit(builder, "add", s, y))
    graph = builder.done([y])
    assert Own()(graph) is graph


@pytest.mark.parametrize("dtype", ["f32", "f64", "i32", "i64", "u8", "bool"])
def test_what_is_given_is_copied_to_be_returned(dtype: str) -> None:
    builder = Builder("test")
    x = builder.input("x", TensorType(dtype, (3,)))
    copies, plan = owned(builder.done([x, x]))
    assert copies == ["%x.copy of %x", "%x.copy.1 of %x"]
    assert [v.name for v in plan.graph.outputs] == ["x.copy", "x.copy.1"]


def test_a_value_is_returned_and_updates_a_state() -> None:
    builder, (s, t) = stateful("s", "t")
    y = emit(builder, "relu", builder.input("x", f32(3)), hint="y")
    builder.update(s, y)
    builder.update(t, y)
    copies, plan = owned(builder.done([y]))
    assert copies == ["%y.copy of %y", "%y.copy.1 of %y"]
    assert plan.place["y"].root == "state s"


def test_literals_and_packs_are_copied_to_be_returned() -> None:
    builder = Builder("test")
    one = emit(builder, "constant", value=1.0, hint="one")
    y = emit(builder, "relu", builder.input("x", f32(3)), hint="y")
    flat = emit(builder, "pack", y, size=32, offsets=(0,), hint="flat")
    assert owned(builder.done([one, flat]))[0] == ["%one.copy of %one", "%flat.copy of %flat"]


def test_a_value_is_packed_once() -> None:
    builder = Builder("test")
    x = builder.input("x", f32(32))
    y = emit(builder, "relu", x, hint="y")
    part = emit(builder, "reshape", y, shape=(4, 8), hint="view")
    flat = emit(builder, "pack", y, part, x, size=96, offsets=(0, 32, 64), hint="flat")
    copies, plan = owned(builder.done([emit(builder, "sum", flat)]))
    assert copies == ["%view.copy of %view", "%x.copy of %x"]
    names = ("y", "view.copy", "x.copy")
    assert [plan.place[name].offset - plan.place["flat"].offset for name in names] == [0, 128, 256]


def test_an_op_that_cannot_work_in_place_writes_elsewhere() -> None:
    builder, (s,) = stateful("s")
    builder.update(s, emit(builder, "softmax", s, hint="y"))
    copies, plan = owned(builder.done([]))
    assert copies == ["%y.copy of %y"]
    assert plan.place["y"].root == "arena" and plan.place["y.copy"].root == "state s"


def test_an_old_value_that_is_read_after_the_new_one_is_kept() -> None:
    builder, (s,) = stateful("s")
    new = emit(builder, "relu", builder.input("x", f32(3)), hint="y")
    builder.update(s, new)
    late = emit(builder, "add", new, s, hint="late")
    copies, plan = owned(builder.done([late]))
    assert copies == ["%y.copy of %y"]
    assert [call.node.outputs[0].name for call in plan.calls] == ["y", "late", "y.copy"]


def test_states_that_change_places() -> None:
    builder, (a, b) = stateful("a", "b")
    builder.update(a, b)
    builder.update(b, a)
    copies, plan = owned(builder.done([]))
    assert copies == ["%b.copy of %b", "%a.copy of %a", "%b.copy.copy of %b.copy"]
    assert [call.node.outputs[0].name for call in plan.calls] == [
        "b.copy",
        "a.copy",
        "b.copy.copy",
    ]


def test_states_that_wait_for_each_other() -> None:
    builder, (a, b) = stateful("a", "b")
    builder.update(a, emit(builder, "relu", b, hint="a.next"))
    builder.update(b, emit(builder, "relu", a, hint="b.next"))
    assert owned(builder.done([]))[0] == ["%a.next.copy of %a.next"]


def test_an_update_that_waits_for_a_ring_needs_no_copy() -> None:
    """It is the ring's own that is copied, whatever the order of updates."""
    for names in ("ab", "ba"):
        builder, (a, b) = stateful("a", "b")
        new = {"b": emit(builder, "tanh", b, hint="n")}
        new["a"] = emit(builder, "add", b, new["b"], hint="s")
        for name in names:
            builder.update({"a": a, "b": b}[name], new[name])
        assert owned(builder.done([]))[0] == ["%n.copy of %n"]


def test_of_a_ring_the_smallest_is_copied() -> None:
    builder, (a,) = stateful("a")
    wide = builder.state("wide", f32(2, 3))
    builder.update(wide, emit(builder, "add", a, wide, hint="w"))
    builder.update(a, emit(builder, "sum", wide, axes=(0,), hint="a.next"))
    assert owned(builder.done([]))[0] == ["%a.next.copy of %a.next"]


def test_a_pack_with_gaps_is_copied_into_a_state() -> None:
    """Its gaps are zero, and the state's old value is not."""
    builder, (s,) = stateful("s")
    wide = builder.state("wide", f32(8))
    inner = emit(builder, "pack", emit(builder, "relu", s), size=4, offsets=(1,), hint="i")
    whole = emit(builder, "pack", inner, emit(builder, "tanh", inner), size=8, offsets=(0, 4))
    builder.update(wide, whole)
    copies, plan = owned(builder.done([emit(builder, "scale", whole, factor=2.0)]))
    assert copies == ["%pack.copy of %pack"]
    check_run(plan, arrays(plan.graph))


def test_a_pack_lies_in_a_flat_state_whose_gaps_it_has() -> None:
    builder, params, _ = flat(4)
    x = builder.input("x", f32(4))
    parts = [emit(builder, name, x) for name in ("relu", "tanh")]
    builder.update(params, packed(builder, *parts))
    copies, plan = owned(builder.done([]))
    assert not copies
    check_run(plan, arrays(plan.graph))


def test_a_pack_of_some_members_is_copied_into_a_flat_state() -> None:
    """The others are zero, and the state's old value is not."""
    builder, params, _ = flat(4)
    part = emit(builder, "relu", builder.input("x", f32(4)))
    whole = emit(builder, "pack", part, layout="net", size=64, offsets=(32,), hint="p")
    builder.update(params, whole)
    copies, plan = owned(builder.done([]))
    assert copies == ["%p.copy of %p"]
    check_run(plan, arrays(plan.graph))


def test_a_part_that_reads_what_it_overwrites() -> None:
    builder = Builder("test")
    layout = lay_out("net", {"w": (32,), "u": (32,)})
    builder.layouts.append(layout)
    w, u = (Value(m.name, f32(*m.shape)) for m in layout.members)
    params = builder.state("params", TensorType("f32", (64,), "net"), (w, u))
    parts = [emit(builder, "relu", value) for value in (u, w)]
    swapped = emit(builder, "pack", *parts, layout="net", size=64, offsets=(0, 32), hint="p")
    builder.update(params, swapped)
    assert owned(builder.done([]))[0] == ["%p.copy of %p"]
