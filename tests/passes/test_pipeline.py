"""The pipeline: what it checks of passes, and what it says of those that are wrong."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import pytest
from graphs import (
    JOBS,
    dumps,
    emit,
    f32,
    stages,
)
from pass_jobs import SMALL, run

from noeira.errors import ParseError, VerifyError
from noeira.ir.builder import Builder
from noeira.ir.graph import ComputeGraph, Value
from noeira.ir.text.dump import Dump, parse_dump
from noeira.ir.verify import verify
from noeira.job import Job
from noeira.passes.base import Pass, parse_pass
from noeira.passes.dce import DeadCodeElimination
from noeira.passes.fuse import Fuse
from noeira.passes.keep_gradients import KeepGradients
from noeira.passes.pipeline import Pipeline, resume
from noeira.passes.resident import Resident
from noeira.passes.schedule import Schedule
from noeira.passes.update import ApplyOptimizer
from noeira.passes.vjp import Vjp


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("unfold", "line 2: there is no pass 'unfold'; there are "),
        ("vjp{cost = 1}", "line 2: vjp has no attribute 'cost'; it has loss"),
        ("dce{x = 1}", "line 2: dce has no attribute 'x'; it has none"),
        ("vjp{loss = 1}", "line 2: vjp: loss must be a text in quotes, not 1"),
        ("resident{samples = 1.5}", "line 2: resident: samples must be a whole number, not 1.5"),
        (
            "resident{weights = [1]}",
            "line 2: resident: weights must be a list, each item a list in brackets",
        ),
        ('resident{weights = [["a", "b"]]}', "each item a list, each item a number, not"),
        ('resident{weights = [["a"]]}', "each item a list of 2, not"),
        ("vjp{loss", "line 2: expected '='"),
        ("vjp dce", "line 2: expected the end of the line, got 'dce'"),
        ("", "line 2: expected the name of a pass"),
    ],
)
def test_bad_passes_are_refused(text: str, message: str):
    with pytest.raises(ParseError) as caught:
        parse_pass(text)
    assert message in str(caught.value)


@pytest.mark.parametrize("job", JOBS.values(), ids=JOBS)
def test_going_on_from_any_stage_ends_the_same(job: Job):
    for first in dumps(job):
        found = stages(first)
        for dump in found:
            again = parse_dump(str(dump))
            assert resume(again)(again) == found[-1]


def test_a_dump_says_what_was_done_and_what_is_to_do():
    progress = [str(dump).splitlines()[1] for dump in stages(SMALL.gradients())]
    assert progress == [
        "// done: trace   to do: hold, vjp, keep_gradients, dce, fuse, own, schedule",
        "// done: trace, hold   to do: vjp, keep_gradients, dce, fuse, own, schedule",
        "// done: trace, hold, vjp   to do: keep_gradients, dce, fuse, own, schedule",
        "// done: trace, hold, vjp, keep_gradients   to do: dce, fuse, own, schedule",
        "// done: trace, hold, vjp, keep_gradients, dce   to do: fuse, own, schedule",
        "// done: trace, hold, vjp, keep_gradients, dce, fuse   to do: own, schedule",
        "// done: trace, hold, vjp, keep_gradients, dce, fuse, own   to do: schedule",
        "// done: trace, hold, vjp, keep_gradients, dce, fuse, own, schedule   to do: -",
    ]


def test_a_pipeline_times_its_passes():
    found: dict[str, float] = {}
    first = SMALL.step()
    resume(first)(first, seconds=found)
    assert list(found) == ["vjp", "update", "guard", "dce", "fuse", "own", "schedule"]
    assert all(0 < value < 1 for value in found.values())


@dataclass(frozen=True)
class Careless(Pass):
    """Does what it is told, and claims that nothing happened."""

    name: ClassVar[str] = "careless"
    action: Any = None

    def __call__(self, graph: ComputeGraph) -> ComputeGraph:
        return self.action(graph)

    def undo(self, graph: ComputeGraph) -> ComputeGraph:
        return graph


def renamed(graph: ComputeGraph) -> ComputeGraph:
    """A valid graph, but not the one before."""
    return replace(graph, name="other")


def shuffled(graph: ComputeGraph) -> ComputeGraph:
    """The nodes in an order that does not work."""
    return replace(graph, nodes=graph.nodes[::-1])


def test_the_pipeline_notices_a_wrong_undo():
    graph = SMALL.step().graph
    with pytest.raises(VerifyError, match="careless: its undo does not give back the graph"):
        run(graph, Careless(renamed))
    assert run(graph, Careless(lambda g: g)) == graph


def test_the_pipeline_names_the_pass_that_broke_a_graph():
    with pytest.raises(
        VerifyError,
        match=r"is not defined above \(after careless\)\n  line \d+ of @linearrelu.step:",
    ):
        run(SMALL.step().graph, Careless(shuffled))


@dataclass(frozen=True)
class Greedy(DeadCodeElimination):
    """Drops, adds and reorders nodes."""

    action: Any = None

    def __call__(self, graph: ComputeGraph) -> ComputeGraph:
        return self.action(graph)


def two_relus() -> ComputeGraph:
    """Two nodes that could change places, and one that nothing reads."""
    builder = Builder("two")
    x = builder.input("x", f32(3))
    outs = [emit(builder, "relu", x), emit(builder, "tanh", x)]
    emit(builder, "sigmoid", x)
    return builder.done(outs)


@pytest.mark.parametrize("cls", [Greedy])
def test_checks_of_dce(cls: Any):
    graph = two_relus()
    a, b, c = graph.nodes
    cls(action=lambda g: replace(g, nodes=(a, b))).check(graph, replace(graph, nodes=(a, b)))
    cls().check(graph, graph)
    for nodes, message in (
        ((b, a), "changed more than the list"),
        ((a, b, replace(c, group="0")), "changed more than the list"),
        ((a,), "dce removed the node of %tanh, which is read"),
    ):
        with pytest.raises(VerifyError, match=message):
            cls().check(graph, replace(graph, nodes=nodes))


def test_checks_of_fuse_and_schedule():
    graph = two_relus()
    a, b, _ = graph.nodes
    for step in (Fuse(), Schedule()):
        step.check(graph, replace(graph, nodes=graph.nodes[::-1]))
        with pytest.raises(VerifyError, match=f"{step.name} changed more than"):
            step.check(graph, replace(graph, nodes=(a, b)))
        with pytest.raises(VerifyError, match=f"{step.name} changed more than"):
            step.check(graph, replace(graph, nodes=(a, b, b)))


def test_the_pipeline_opens_what_was_fused_before_it_believes_it():
    fused = stages(SMALL.step())[-1].graph
    kernel = next(n for n in fused.nodes if n.body)
    clash = replace(kernel.body[0], outputs=(Value("target", kernel.body[0].outputs[0].type),))
    reads = replace(kernel.body[1], inputs=clash.outputs)
    broken = replace(kernel, body=(clash, reads))
    graph = replace(fused, nodes=tuple(broken if n is kernel else n for n in fused.nodes))
    verify(graph)
    with pytest.raises(
        VerifyError, match="opened, the fused graph is not valid: %target is defined twice"
    ):
        Pipeline(())(Dump(graph))


@pytest.mark.parametrize(
    ("passes", "message"),
    [
        ((ApplyOptimizer(),), "update: no node gives %grads"),
        ((KeepGradients(),), "keep_gradients: no node gives %grads"),
        ((Vjp("cost"),), "vjp: the graph does not return %cost"),
        ((Vjp(), ApplyOptimizer(loss="cost")), "update: no node gives %cost"),
        ((Resident(6, (("cost", 1.0),)),), "resident: no node gives %cost"),
    ],
)
def test_passes_in_the_wrong_order_say_what_they_miss(passes: tuple[Pass, ...], message: str):
    with pytest.raises(VerifyError, match=message):
        run(SMALL.step().graph, *passes)
