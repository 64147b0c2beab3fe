"""Plans, executed, and what they say of calls, stages and roots."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from graphs import FINAL, JOBS, arrays, choose, compiled, graphs
from hypothesis import given, reject, settings
from plan_machine import check_run

from noeira.errors import VerifyError
from noeira.ir.graph import ComputeGraph, Node
from noeira.ir.plan import ARENA, Choice, Place, Plan, Stage, root_of, split_root
from noeira.ir.text.dump import Dump
from noeira.ir.text.plan import parse_plan
from noeira.ir.types import ALIGNMENT
from noeira.passes.schedule import Schedule
from noeira.planning.memory import make_plan


@pytest.mark.parametrize("dump", FINAL.values(), ids=FINAL)
def test_a_plan_run_in_its_own_places_gives_what_the_graph_says(dump: Dump):
    plan = make_plan(dump.graph, choose, "c test")
    given, steps = arrays(dump.graph), 3
    if "cursor" in given:
        given |= {"cursor": np.asarray(0), "bad": np.asarray(-1)}
        take = dump.graph.nodes[0]
        steps = min(steps, take.inputs[0].type.shape[0] // take.outputs[0].type.shape[0])
    check_run(plan, given, steps)


@settings(max_examples=200)
@given(graphs(nodes=16))
def test_random_plans_run_in_their_own_places(graph: ComputeGraph):
    try:
        plan = make_plan(Schedule()(graph), choose, "c test")
    except VerifyError:
        reject()
    with np.errstate(all="ignore"):
        check_run(plan, arrays(graph), steps=2)


def spoiled(plan: Plan, name: str, **changes: Any) -> Plan:
    """The plan with one place changed."""
    places = tuple(Place(**{**p.__dict__, **changes}) if p.name == name else p for p in plan.places)
    return Plan(plan.graph, plan.target, plan.calls, places, plan.arena)


def test_the_machine_notices_values_that_overlap():
    plan = make_plan(FINAL["mlp step"].graph, choose, "c test")
    given = arrays(plan.graph)
    check_run(plan, given)
    other = plan.place["1.linear"]
    with pytest.raises(AssertionError):
        check_run(spoiled(plan, "0.relu", offset=other.offset), given)
    with pytest.raises(AssertionError):
        check_run(spoiled(plan, "0.relu", last=plan.place["0.relu"].first), given)
    with pytest.raises(AssertionError):
        check_run(spoiled(plan, "loss.lse", offset=plan.arena), given)


def test_calls_and_launching_nodes_are_one_to_one():
    for dump in FINAL.values():
        plan = make_plan(dump.graph, choose, "c test")
        assert [id(c.node) for c in plan.calls] == [
            id(n) for n in dump.graph.nodes if n.op.launches
        ]
        assert {n.op.name for n in dump.graph.nodes if not n.op.launches} <= {
            "constant",
            "pack",
            "reshape",
        }


def test_stages_workspaces_and_targets_are_what_the_target_chose():
    graph = compiled(JOBS["mlp"].step())
    asked = list[Node]()

    def rule(node: Node) -> Choice:
        asked.append(node)
        return Choice((Stage("a", (("n", len(asked)),)), Stage("b")), 65 if len(asked) == 2 else 0)

    plan = make_plan(graph, rule, "c none")
    assert asked == [call.node for call in plan.calls]
    assert [call.choice.stages[0].options for call in plan.calls] == [
        (("n", i + 1),) for i in range(len(asked))
    ]
    assert [call.choice.workspace for call in plan.calls] == [0, 65] + [0] * (len(asked) - 2)
    assert plan.calls[1].workspace % ALIGNMENT == 0
    again = parse_plan(str(plan))
    assert (again.target, again.name, again.calls) == ("c none", graph.name, plan.calls)


def test_choices_are_the_only_thing_a_plan_takes_from_its_target():
    graph = compiled(JOBS["residual"].step())
    one = make_plan(graph, lambda n: Choice((Stage("a"),)), "c avx2")
    two = make_plan(graph, lambda n: Choice((Stage("b"), Stage("c"))), "c neon")
    assert (one.places, one.arena) == (two.places, two.arena)


@pytest.mark.parametrize("kind", ["input", "state", "output", "literal"])
def test_roots_are_put_together_and_taken_apart_in_one_place(kind: str) -> None:
    root = root_of(kind, "d.0.x")
    assert root == f"{kind} d.0.x" and split_root(root) == (kind, "d.0.x")
    assert (Place("y", root).kind, Place("y", root).owner) == (kind, "d.0.x")
    assert split_root(ARENA) == (ARENA, "")
