"""Plans, executed: every value in its place in real memory, whatever is free poisoned."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from graphs import FINAL, JOBS, arrays, choose, compiled, graphs
from hypothesis import given, reject, settings

from noeira.errors import VerifyError
from noeira.ir.arrays import numpy_dtype
from noeira.ir.graph import ComputeGraph, Node, Value
from noeira.ir.interpret import interpret
from noeira.ir.plan import (
    ARENA,
    LITERAL,
    Call,
    Choice,
    Place,
    Plan,
    Stage,
    parse_plan,
    root_of,
    split_root,
)
from noeira.ir.storage import overwritable
from noeira.ir.text.dump import Dump
from noeira.ir.types import ALIGNMENT
from noeira.passes.schedule import Schedule
from noeira.planning.memory import has_gaps, make_plan

GUARD, POISON = 64, 0xFF


class Machine:
    """Runs a plan with the reference of each op over the plan's own places.

    Bytes that nobody may count on are poisoned (NaN as floats), and guards stand on both sides of
    every piece of memory.
    """

    def __init__(self, plan: Plan, given: dict[str, np.ndarray]) -> None:
        self.plan = plan
        sizes = {f"input {i.value.name}": i.value for i in plan.graph.inputs}
        sizes |= {f"state {s.value.name}": s.value for s in plan.graph.states}
        sizes |= {f"output {v.name}": v for v in plan.graph.outputs}
        self.rooms = {root: self.room(v.type.nbytes) for root, v in sizes.items()}
        self.rooms[ARENA] = self.room(plan.arena)
        for node in plan.graph.nodes:
            place = plan.place.get(node.outputs[0].name)
            if node.op.name == "pack" and has_gaps(node) and place and place.root == ARENA:
                self.bytes(place)[:] = 0
        for root, value in sizes.items():
            if value.name in given and not root.startswith("output"):
                self.rooms[root][GUARD:-GUARD] = np.frombuffer(
                    given[value.name].tobytes(), np.uint8
                )
        self.used: set[str] = set()

    def room(self, size: int) -> np.ndarray:
        """Poisoned bytes, the guards among them."""
        return np.full(size + 2 * GUARD, POISON, np.uint8)

    def bytes(self, place: Place) -> np.ndarray:
        """The bytes of a place."""
        room = self.rooms[place.root][GUARD:-GUARD]
        assert place.offset + place.size <= len(room)
        return room[place.offset : place.offset + place.size]

    def read(self, value: Value) -> np.ndarray:
        """What lies in a value's place, copied."""
        place, dtype = self.plan.place[value.name], numpy_dtype(value.type.dtype)
        if place.kind == LITERAL:
            return np.full(value.type.shape, float(place.owner), dtype)[()]
        found = np.frombuffer(self.bytes(place).tobytes(), dtype).reshape(value.type.shape)
        return found if value.type.shape else found[()]

    def step(self) -> None:
        """One call of the entry."""
        for index, call in enumerate(self.plan.calls):
            self.call(index, call)
        for room in self.rooms.values():
            assert (room[:GUARD] == POISON).all()
            assert (room[-GUARD:] == POISON).all()

    def call(self, index: int, call: Call) -> None:
        """One call: poison workspace and results, write the results, poison what has died."""
        node = call.node
        workspace = Place("", ARENA, call.workspace, call.choice.workspace)
        self.bytes(workspace)[:] = POISON
        for position, value in enumerate(node.outputs):
            if not self.takes_over(node, position):
                self.bytes(self.plan.place[value.name])[:] = POISON
        values = {v.name: self.read(v) for v in node.inputs}
        for part in node.parts:
            results = part.op.reference(
                part.attrs, *part.arguments([values[v.name] for v in part.inputs])
            )
            values |= zip([v.name for v in part.outputs], results, strict=True)
        for value in node.outputs:
            made = np.asarray(values[value.name], numpy_dtype(value.type.dtype))
            assert made.shape == value.type.shape
            self.bytes(self.plan.place[value.name])[:] = np.frombuffer(made.tobytes(), np.uint8)
        self.bytes(workspace)[:] = POISON
        for place in self.plan.places:
            if place.root == ARENA and place.last == index:
                self.bytes(place)[:] = POISON

    def takes_over(self, node: Node, position: int) -> bool:
        """Whether a result lies where an operand lies whose memory it may take."""
        here = self.plan.place[node.outputs[position].name]
        sources = overwritable(node).get(position, ())
        there = [self.plan.place[node.inputs[source].name] for source in sources]
        return any((here.root, here.offset) == (place.root, place.offset) for place in there)


def run(
    graph: ComputeGraph, given: dict[str, np.ndarray], steps: int
) -> list[dict[str, np.ndarray]]:
    """The states and outputs after each of some steps, by `interpret`."""
    now, found = dict(given), list[dict[str, np.ndarray]]()
    for _ in range(steps):
        values = interpret(graph, now)
        now |= {u.state.name: np.asarray(values[u.new.name]) for u in graph.updates}
        after = {s.value.name: now[s.value.name] for s in graph.states}
        found.append(after | {v.name: values[v.name] for v in graph.outputs})
    return found


def check(plan: Plan, given: dict[str, np.ndarray], steps: int = 3) -> None:
    """A plan's steps are those of its graph."""
    machine = Machine(plan, given)
    results = [s.value for s in plan.graph.states] + list(plan.graph.outputs)
    for wanted in run(plan.graph, given, steps):
        machine.step()
        for value in results:
            root = f"state {value.name}" if value.name in given else f"output {value.name}"
            place = Place(value.name, root, 0, value.type.nbytes)
            got = np.frombuffer(machine.bytes(place).tobytes(), numpy_dtype(value.type.dtype))
            tolerance = 1e-5 if value.type.dtype == "f32" else 1e-12
            np.testing.assert_allclose(
                got.reshape(value.type.shape),
                wanted[value.name],
                tolerance,
                tolerance,
                err_msg=value.name,
            )


@pytest.mark.parametrize("dump", FINAL.values(), ids=FINAL)
def test_a_plan_run_in_its_own_places_gives_what_the_graph_says(dump: Dump):
    plan = make_plan(dump.graph, choose, "c test")
    given, steps = arrays(dump.graph), 3
    if "cursor" in given:
        given |= {"cursor": np.asarray(0), "bad": np.asarray(-1)}
        take = dump.graph.nodes[0]
        steps = min(steps, take.inputs[0].type.shape[0] // take.outputs[0].type.shape[0])
    check(plan, given, steps)


@settings(max_examples=200)
@given(graphs(nodes=16))
def test_random_plans_run_in_their_own_places(graph: ComputeGraph):
    try:
        plan = make_plan(Schedule()(graph), choose, "c test")
    except VerifyError:
        reject()
    with np.errstate(all="ignore"):
        check(plan, arrays(graph), steps=2)


def spoiled(plan: Plan, name: str, **changes: Any) -> Plan:
    """The plan with one place changed."""
    places = tuple(Place(**{**p.__dict__, **changes}) if p.name == name else p for p in plan.places)
    return Plan(plan.graph, plan.target, plan.calls, places, plan.arena)


def test_the_machine_notices_values_that_overlap():
    plan = make_plan(FINAL["mlp step"].graph, choose, "c test")
    given = arrays(plan.graph)
    check(plan, given)
    other = plan.place["1.linear"]
    with pytest.raises(AssertionError):
        check(spoiled(plan, "0.relu", offset=other.offset), given)
    with pytest.raises(AssertionError):
        check(spoiled(plan, "0.relu", last=plan.place["0.relu"].first), given)
    with pytest.raises(AssertionError):
        check(spoiled(plan, "loss.lse", offset=plan.arena), given)


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
