"""Plan-making: the calls of a scheduled graph, and a place in memory for every value.

There are four kinds of memory. Inputs, states and outputs have memory of their own, which the
caller passes in; what updates a state is written straight into the state, and what is returned
straight into the output. Literals lie in the program's read-only data. Everything else shares one
arena: each value has a lifetime, from the call that makes it to the last call that reads it, and
values whose lifetimes do not touch may have the same bytes.

The arena is filled largest value first, each at the lowest place that is free during its life
(first fit by size), 64-byte aligned. Workspaces are values that live during one call.

Views own nothing: what an op says of its `storage` is where they lie, a reshape where its source
lies, the operands of a pack inside the pack. The gaps of a layout must stay zero, so a pack with
gaps lives from beginning to end: the arena is zeroed once, when it is allocated, and nobody else is
placed there. The pass `own` has copied what would need two places.

What never gets a place: a value inside a fused body that nothing outside reads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from noeira.errors import VerifyError
from noeira.ir.graph import ComputeGraph, Node, Value
from noeira.ir.plan import (
    ARENA,
    INPUT,
    LITERAL,
    OUTPUT,
    STATE,
    Call,
    Choice,
    Choose,
    Place,
    Plan,
    root_of,
)
from noeira.ir.storage import (
    Holding,
    Literal,
    Memory,
    holds,
    leaves_gaps,
    placed,
    readers,
    takes_over,
    writers,
)
from noeira.ir.structure import asked_once
from noeira.ir.types import DTYPE_BYTES
from noeira.ir.verify import verify_orders
from noeira.planning.first_fit import Span, first_fit


def make_plan(graph: ComputeGraph, choose: Choose, target: str) -> Plan:
    """The plan of a scheduled graph. Raises VerifyError if an update cannot happen in place, or an
    operand lies in another order than its kernel takes it in.
    """
    planner = Planner.of(graph)
    choices = asked_once(planner.launching, choose)
    lives = planner.lifetimes()
    spans = [span for span in lives.values() if span.root == ARENA]
    workspaces = [workspace_span(i, choice) for i, choice in enumerate(choices) if choice.workspace]
    offsets, size = first_fit([*spans, *workspaces])
    calls = tuple(
        Call(node, choice, offsets.get(f"workspace {i}", 0))
        for i, (node, choice) in enumerate(zip(planner.launching, choices, strict=True))
    )
    return Plan(graph, target, calls, planner.places(lives, offsets), size)


def workspace_span(number: int, choice: Choice) -> Span:
    """The memory that the call of that number works in."""
    return Span(f"workspace {number}", ARENA, choice.workspace, number, number)


@dataclass
class Planner:
    """Finds the root of each value that owns memory, or the value that holds it, and the byte where
    it begins there.
    """

    graph: ComputeGraph
    launching: tuple[Node, ...]
    roots: dict[str, str] = field(default_factory=dict)
    inside: dict[str, tuple[str, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.memory = Memory(self.graph)
        self.items = {v.name: DTYPE_BYTES[v.type.dtype] for v in self.graph.values()}

    @classmethod
    def of(cls, graph: ComputeGraph) -> Planner:
        """All that a graph decides of places. Raises VerifyError if an update cannot happen in
        place, or an operand lies in another order than its kernel takes it in.
        """
        verify_orders(graph)
        planner = cls(graph, graph.launching())
        found = placed(graph, planner.memory)
        planner.root_given()
        planner.root_updates(found.updates)
        planner.root_outputs(found.outputs)
        planner.root_literals()
        for node, owners in found.parts:
            planner.hold(node, owners)
        return planner

    def root_given(self) -> None:
        """Inputs and states lie in their own memory."""
        for given in self.graph.inputs:
            self.roots[given.value.name] = root_of(INPUT, given.value.name)
        for state in self.graph.states:
            self.roots[state.value.name] = root_of(STATE, state.value.name)

    def root_updates(self, owners: Sequence[str | None]) -> None:
        """What updates a state takes over its memory."""
        reading, writing = readers(self.graph, self.memory), writers(self.graph)
        for update, owner in zip(self.graph.updates, owners, strict=True):
            old, new = update.state, update.new
            if owner is None:
                raise VerifyError(
                    f"{old} cannot take {new}, which has a place already, or gaps: copy it"
                )
            first = min(writing[new.name], default=len(self.graph.nodes))
            last = max(reading.get(old.name, ()), default=-1)
            if last > first:
                raise VerifyError(f"{old} is read after {new} has taken its place: copy it before")
            writer = self.graph.nodes[first]
            if last == first and not takes_over(writer, old, new, self.memory):
                op = writer.op.name
                raise VerifyError(f"{op} cannot update {old} in place: copy {old} before")
            self.roots[owner] = root_of(STATE, old.name)

    def root_outputs(self, owners: Sequence[str | None]) -> None:
        """What is returned lies in memory that the caller passes."""
        for value, owner in zip(self.graph.outputs, owners, strict=True):
            if owner is None:
                raise VerifyError(f"{value} is returned but has a place already: copy it")
            self.roots[owner] = root_of(OUTPUT, value.name)

    def root_literals(self) -> None:
        """Literals lie in the program."""
        for node in self.graph.nodes:
            if isinstance(node.storage, Literal):
                text = literal_text(node.outputs[0], node.storage)
                self.roots[node.outputs[0].name] = root_of(LITERAL, text)

    def hold(self, node: Node, owners: Sequence[str | None]) -> None:
        """The operands lie inside the result."""
        assert isinstance(node.storage, Holding)
        whole = node.outputs[0].name
        for part, offset, owner in zip(node.inputs, node.storage.offsets, owners, strict=True):
            if owner is None:
                raise VerifyError(f"{part} is packed but has a place already: copy it")
            self.inside[owner] = (whole, offset * self.items[whole])

    def resolve(self, name: str) -> tuple[str, int]:
        """The value that owns the memory of a value, and the byte where the value begins there."""
        base, element = self.memory.base(name)
        offset = element * self.items[base]
        while base in self.inside:
            base, more = self.inside[base]
            offset += more
        return base, offset

    def lifetimes(self) -> dict[str, Span]:
        """The span of every value that owns memory."""
        calls = len(self.launching)
        spans: dict[str, list[int]] = {}
        sizes = {v.name: v.type.nbytes for v in self.graph.values()}
        for at, node in enumerate(self.launching):
            for value in (*node.inputs, *node.outputs):
                base, _ = self.resolve(value.name)
                span = spans.setdefault(base, [at, at])
                span[1] = at
        for value in self.graph.given():
            base, _ = self.resolve(value.name)
            spans[base] = [0, calls]
        for value in self.graph.results():
            base, _ = self.resolve(value.name)
            spans.setdefault(base, [calls, calls])[1] = calls
        for node in self.graph.nodes:
            if holds(node) and leaves_gaps(node):
                base, _ = self.resolve(node.outputs[0].name)
                spans[base] = [0, calls]
        return {
            name: Span(name, self.roots.get(name, ARENA), sizes[name], first, last)
            for name, (first, last) in spans.items()
        }

    def places(self, lives: dict[str, Span], offsets: dict[str, int]) -> tuple[Place, ...]:
        """A place for every value, in order of definition."""
        found = list[Place]()
        for value in self.graph.values():
            base, inner = self.resolve(value.name)
            span = lives.get(base)
            root = self.roots.get(base, ARENA)
            if root.startswith(LITERAL):
                found.append(Place(value.name, root))
            elif span is not None:
                offset = inner + (offsets[base] if root == ARENA else 0)
                found.append(
                    Place(value.name, root, offset, value.type.nbytes, span.first, span.last)
                )
        return tuple(found)


def literal_text(value: Value, storage: Literal) -> str:
    """A literal as text."""
    return repr(float(storage.value)) if value.type.is_float else repr(int(storage.value))
