"""Where updates of states lie: in their states, or why not."""

from __future__ import annotations

from typing import Any

import pytest
from graphs import emit, f32
from memory_plans import check_plan, flat, packed, planned, refused, stateful

from noeira.ir.builder import Builder
from noeira.ir.plan import Place


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


def params_like(builder: Builder, params: Any) -> Any:
    """An input of the type of the parameters."""
    return builder.input("flat", params.type)


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
    why = f"{s} cannot take {new}, which has a place already, or gaps: copy it"
    assert refused(builder) == why


def test_a_pack_with_gaps_may_not_lie_in_a_state_whose_old_value_would_show_in_them():
    builder, x, _ = stateful()
    wide = builder.state("wide", f32(8))
    parts = emit(builder, "relu", x)
    builder.update(wide, emit(builder, "pack", parts, size=8, offsets=(0,), hint="p"))
    assert refused(builder).startswith("%wide cannot take %p, which has a place already, or gaps")


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
