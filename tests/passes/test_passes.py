"""Passes: what each changes, that it can be undone, and that the pipeline notices misbehaviour."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from graphs import JOBS, choose, deep, deep_step, dumps, emit, f32, graphs, stages
from hypothesis import given
from hypothesis import strategies as st
from pass_jobs import SMALL, run
from pass_options import OPTIONS
from stateful_layers import RunningMean
from timing import near_linear, quick

from noeira.errors import NoeiraError, VerifyError
from noeira.ir.builder import Builder
from noeira.ir.gradients import gradients
from noeira.ir.graph import ComputeGraph, Value
from noeira.ir.layouts import lay_out
from noeira.ir.order import topological
from noeira.ir.text.dump import Dump, parse_dump
from noeira.ir.types import TensorType
from noeira.ir.verify import verify
from noeira.job import Job, job_of
from noeira.nn import MSE, SGD, Adam, CrossEntropy, Linear, LinearReLU, ReLU, Sequential
from noeira.passes.base import Pass, all_passes, parse_pass, same_nodes
from noeira.passes.dce import DeadCodeElimination
from noeira.passes.fuse import Fuse
from noeira.passes.own import Own
from noeira.passes.pipeline import resume
from noeira.passes.schedule import Schedule
from noeira.passes.update import ApplyOptimizer
from noeira.passes.vjp import Vjp
from noeira.planning.memory import make_plan

UNDONE = "vjp", "recompute", "update", "guard", "keep_gradients", "resident", "own"


def changed(before: ComputeGraph, after: ComputeGraph) -> str:
    """The lines that a pass took away (-) and those that it added (+), in order."""
    old, new = str(before).splitlines(), str(after).splitlines()
    return "\n".join(
        [*(f"- {x}" for x in old if x not in new), *(f"+ {x}" for x in new if x not in old)]
    )


@pytest.mark.parametrize("entry", ["gradients", "steps"])
def test_what_each_pass_changes(entry: str, golden: Callable[..., None]):
    first = SMALL.gradients() if entry == "gradients" else SMALL.training(6).entries[0].dump
    found = stages(first)
    for before, after in pairwise(found):
        name = after.done[-1].partition("{")[0]
        if (entry, name) in SHOWN:
            golden(changed(before.graph, after.graph), name)


SHOWN = {
    ("gradients", "vjp"),
    ("gradients", "keep_gradients"),
    ("steps", "update"),
    ("steps", "resident"),
    ("steps", "fuse"),
}


def test_dce_drops_what_nothing_reads():
    builder = Builder("example")
    x = builder.input("x", f32(3))
    emit(builder, "relu", x, hint="a")
    graph = builder.done([emit(builder, "tanh", x, hint="b")])
    after = DeadCodeElimination()(graph)
    assert [n.op.name for n in after.nodes] == ["tanh"]
    assert changed(graph, after) == "-   %a = relu(%x) : f32[3]   from net: Test by trace"


def test_schedule_puts_an_update_after_the_last_reader():
    builder = Builder("example")
    n = builder.state("n", TensorType("i64", ()))
    builder.update(n, emit(builder, "count", n, hint="n.next"))
    s = builder.state("s", f32(4))
    view = emit(builder, "reshape", s, shape=(2, 2), hint="view")
    builder.update(s, emit(builder, "copy", builder.input("x", f32(4)), hint="s.next"))
    total = emit(builder, "sum", view, hint="total")
    graph = builder.done([total])
    after = Schedule()(graph)
    assert [n.outputs[0].name for n in after.nodes] == ["n.next", "view", "total", "s.next"]
    Schedule().check(graph, after)


def test_schedule_waits_for_the_parts_of_a_pack_too():
    builder = Builder("example")
    layout = lay_out("net", {"w": (32,), "u": (32,)})
    builder.layouts.append(layout)
    w, u = (Value(m.name, f32(*m.shape)) for m in layout.members)
    params = builder.state("params", TensorType("f32", (64,), "net"), (w, u))
    a = emit(builder, "relu", builder.input("x", f32(32)), hint="a")
    b = emit(builder, "tanh", w, hint="b")
    packed = emit(builder, "pack", a, b, layout="net", size=64, offsets=(0, 32), hint="p")
    builder.update(params, packed)
    graph = builder.done([emit(builder, "sum", u, hint="total")])
    assert [n.outputs[0].name for n in Schedule()(graph).nodes] == ["total", "b", "a", "p"]


def test_updates_that_wait_for_each_other_have_no_order():
    builder = Builder("swap")
    a, b = (builder.state(name, f32(3)) for name in "ab")
    builder.update(a, emit(builder, "copy", b, hint="a.next"))
    builder.update(b, emit(builder, "copy", a, hint="b.next"))
    with pytest.raises(
        VerifyError, match=r"%a.next waits for itself: no order of the nodes exists"
    ):
        Schedule()(builder.done([]))


@pytest.mark.parametrize("job", JOBS.values(), ids=JOBS)
def test_every_pass_can_be_undone(job: Job):
    for first in dumps(job):
        found = stages(first)
        for before, after, text in zip(found, found[1:], first.todo, strict=False):
            step = parse_pass(text)
            step.check(before.graph, after.graph)
            if step.name in UNDONE:
                assert step.undo(after.graph) == before.graph
            elif step.name == "fuse":
                assert same_nodes(step.undo(after.graph), before.graph)
            else:
                assert {id(n) for n in after.graph.nodes} <= {id(n) for n in before.graph.nodes}


@pytest.mark.parametrize("step", OPTIONS, ids=str)
def test_a_pass_reads_back_as_it_was(step: Pass):
    assert parse_pass(str(step)) == step
    assert str(parse_pass(str(step))) == str(step)


@given(
    st.builds(
        ApplyOptimizer,
        st.text(),
        st.floats(allow_nan=False),
        st.lists(st.tuples(st.text(), st.booleans() | st.floats(allow_nan=False) | st.text())).map(
            tuple
        ),
    )
)
def test_any_options_read_back_as_they_were(step: ApplyOptimizer):
    assert parse_pass(str(step)) == step
    graph = Builder("empty").done([])
    assert parse_dump(str(Dump(graph, ("trace", str(step)), (str(step), "dce")))).todo == (
        str(step),
        "dce",
    )


def test_every_pass_is_tried():
    own = {kind for kind in all_passes().values() if kind.__module__.startswith("noeira.")}
    assert {type(step) for step in OPTIONS} == own
    assert {name: step.name for name, step in all_passes().items()} == {n: n for n in all_passes()}


def test_there_must_be_something_to_train():
    graph = job_of(Sequential[ReLU, ReLU], batch=2, loss=CrossEntropy, input=(3,)).gradients().graph
    with pytest.raises(
        VerifyError,
        match=r"vjp: @sequential\.gradients has no parameters, so there is nothing to train",
    ):
        run(graph, Vjp())


def test_a_loss_is_one_number():
    builder = Builder("many")
    loss = emit(builder, "relu", builder.input("x", f32(3)), hint="loss")
    with pytest.raises(VerifyError, match=r"vjp: %loss is f32\[3\]; a loss is a single float"):
        run(builder.done([loss]), Vjp())


def test_no_gradient_is_computed_that_nobody_wants():
    nodes = stages(
        job_of(Sequential[Linear[4, 5], ReLU, Linear[5, 3]], batch=2, loss=CrossEntropy).gradients()
    )[2].graph.nodes
    assert not any(v.name in ("d.x", "d.target") for n in nodes for v in n.outputs)
    assert [n.op.name for n in nodes if n.origin.by == "vjp"] == [
        "constant",
        "cross_entropy_grad",
        "sum",
        "matmul",
        "matmul",
        "relu.d0",
        "sum",
        "matmul",
        "pack",
    ]


def test_gradients_of_what_does_not_reach_the_loss_are_zero():
    builder = Builder("idle")
    layout = lay_out("net", {"w": (3,), "u": (2, 2)})
    builder.layouts.append(layout)
    w, u = (Value(m.name, f32(*m.shape)) for m in layout.members)
    builder.state("params", TensorType("f32", (64,), "net"), (w, u))
    loss = emit(builder, "sum", w, hint="loss")
    after = run(builder.done([loss]), Vjp())
    tail = [f"{n.outputs[0]} = {n.op.name}" for n in after.nodes[-3:]]
    assert tail == ["%zero = constant", "%d.u = broadcast", "%grads = pack"]


def test_gradients_that_share_memory_are_copied():
    """Three parameters with one gradient, the last as a view of it: it is stored once, and copied
    for two.
    """
    builder = Builder("shared")
    layout = lay_out("net", {"w": (3,), "u": (3,), "v": (1, 3)})
    builder.layouts.append(layout)
    w, u, v = (Value(m.name, f32(*m.shape)) for m in layout.members)
    builder.state("params", TensorType("f32", (96,), "net"), (w, u, v))
    flat = emit(builder, "reshape", v, shape=(3,))
    added = emit(builder, "add", emit(builder, "add", w, u), flat)
    after = run(builder.done([emit(builder, "sum", added, hint="loss")]), Vjp())
    owned = run(after, Own())
    copies = [
        f"{n.outputs[0]} = {n.op.name}({n.inputs[0]})" for n in owned.nodes if n not in after.nodes
    ]
    assert copies[:2] == [
        "%d.add.1.copy = copy(%d.add.1)",
        "%d.v.copy = copy(%d.v)",
    ]
    make_plan(Schedule()(owned), choose, "c")


def test_cotangents_are_summed_in_the_order_of_their_readers():
    builder = Builder("fan")
    x = builder.input("x", f32(3))
    parts = [emit(builder, name, x) for name in ("relu", "tanh", "sigmoid")]
    seeds = {p.name: emit(builder, "constant", value=1.0) for p in parts}
    seeds = {name: emit(builder, "broadcast", one, shape=(3,)) for name, one in seeds.items()}
    before = len(builder.nodes)
    found = gradients(builder, seeds, [x], "vjp")
    assert [(n.op.name, *(v.name for v in n.inputs)) for n in builder.nodes[before:]] == [
        ("sigmoid.d0", "broadcast.2", "sigmoid"),
        ("tanh.d0", "broadcast.1", "tanh"),
        ("relu.d0", "broadcast", "relu"),
        ("add", "d.x", "d.x.1"),
        ("add", "d.x.sum", "d.x.2"),
    ]
    assert found["x"].name == "d.x.sum.1"


@given(graphs(nodes=14), st.randoms(use_true_random=False))
def test_orders_respect_who_reads_whom(graph: ComputeGraph, random: Any):
    nodes = list(graph.nodes)
    random.shuffle(nodes)
    ordered = topological(nodes)
    assert sorted(map(id, ordered)) == sorted(map(id, nodes))
    verify(replace(graph, nodes=tuple(ordered)))
    assert topological(ordered) == ordered


def test_names_are_fresh_and_found_at_once():
    builder = Builder("names")
    x = builder.input("x", f32(1))
    names = [emit(builder, "relu", x, hint="y").name for _ in range(20_000)]
    assert names[:3] == ["y", "y.1", "y.2"]
    assert names[-1] == "y.19999"
    again = Builder.of(builder.done([x]))
    assert emit(again, "relu", x, hint="y").name == "y.20000"


def test_names_inside_a_fused_body_are_taken():
    fused = stages(job_of(LinearReLU[4, 3], batch=2).forward())[-1].graph
    assert Builder.of(fused).fresh("linear") == "linear.1"


@pytest.mark.slow
def test_all_passes_are_quick_and_near_linear():
    small, twice = (deep(layers).step() for layers in (166, 332))
    assert 2000 < len(deep_step(166).nodes) < 2100
    assert quick(lambda: resume(small)(small), 0.3)
    assert near_linear(lambda dump: resume(dump)(dump), small, twice)


def wide(readers: int) -> Dump:
    """A value with many readers, whose gradients are summed; all ask for the same name."""
    builder = Builder("wide.step")
    layout = lay_out("net", {"w": (4,)})
    builder.layouts.append(layout)
    w = Value("w", f32(4))
    builder.state("params", TensorType("f32", (32,), "net"), (w,))
    total = w
    for _ in range(readers):
        total = emit(builder, "add", total, w)
    graph = builder.done([emit(builder, "sum", total, hint="loss")])
    return Dump(
        graph,
        ("trace",),
        tuple(map(str, (Vjp(), ApplyOptimizer("sgd"), DeadCodeElimination(), Fuse(), Schedule()))),
    )


def test_a_value_with_many_readers_is_near_linear_too():
    assert near_linear(lambda dump: resume(dump)(dump), wide(500), wide(1000))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ('{op = "relu"}', "update: relu is no optimizer; there are .*adam"),
        ('{options = [["beta1", 0.9, 3]]}', "options are pairs|must be"),
        ('{options = [["beta3", 0.9]]}', "adam has no attribute 'beta3'"),
    ],
)
def test_an_update_that_is_none(options: str, message: str) -> None:
    job = job_of(
        Sequential[LinearReLU[4, 3], Linear[3, 2]], batch=2, loss=CrossEntropy, optimizer=Adam()
    )
    dump = job.gradients()
    with pytest.raises(NoeiraError, match=message):
        parse_pass(f"update{options}")(parse_pass("vjp")(dump.graph))


def test_an_update_that_a_bad_step_would_make_is_refused():
    dump = stages(SMALL.step())[3]
    graph, moment = dump.graph, dump.graph.state("adam.m").value
    others = tuple(u for u in graph.updates if u.state != moment)
    builder = Builder.of(replace(graph, updates=others))
    builder.update(moment, emit(builder, "copy", moment, hint="moved"))
    with pytest.raises(VerifyError, match=r"%moved updates %adam\.m whether the step is ok or not"):
        resume(dump)(Dump(builder.done(graph.outputs), dump.done, dump.todo))


def test_guard_keeps_what_nobody_else_guards(golden: Callable[..., None]):
    found = stages(
        job_of(Sequential[Linear[4, 3], RunningMean[3]], batch=2, loss=MSE, optimizer=SGD()).step()
    )
    golden(changed(found[2].graph, found[3].graph))


def test_weight_decay_acts_where_the_layout_says():
    shapes = {"a": (3,), "b": (40,), "c": (5,), "d": (2, 2)}
    layout = lay_out("net", shapes, ("a", "b", "d"))
    assert str(layout).splitlines()[1:5] == [
        "  a: [3] @ 0 decay",
        "  b: [40] @ 32 decay",
        "  c: [5] @ 96",
        "  d: [2, 2] @ 128 decay",
    ]
    builder = Builder("ranges")
    builder.layouts.append(layout)
    members = [Value(m.name, f32(*m.shape)) for m in layout.members]
    params = builder.state("params", TensorType("f32", (layout.size,), "net"), members)
    emit(builder, "copy", params, hint="grads")
    graph = verify(builder.done([emit(builder, "sum", params, hint="loss")]))
    assert parse_dump(str(Dump(graph))).graph == graph
    table = "[0:96, 96:128 (weight_decay = 0.0), 128:160]"
    for rate, attrs in ((0.1, f"{{weight_decay = 0.1, ranges = {table}}}"), (0.0, "")):
        after = verify(ApplyOptimizer("sgd", 0.1, (("weight_decay", rate),))(graph))
        (node,) = [n for n in after.nodes if n.op.name == "sgd"]
        assert f"%sgd.step, %ok) {attrs}".rstrip() + " : " in str(node)
        assert parse_dump(str(Dump(after))).graph == after
