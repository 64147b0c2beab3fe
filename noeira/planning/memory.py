"""Plan-making: the calls of a scheduled graph, and a place in memory for every value.

There are four kinds of memory. Inputs, states and outputs have memory of their own, which the
caller passes in; what updates a state is written straight into the state, and what is returned
straight into the output. Literals lie in the program's read-only data. Everything else shares one
arena: each value has a lifetime, from the call that makes it to the last call that reads it, and
values whose lifetimes do not touch may have the same bytes.

The arena is filled largest value first, each at the lowest place that is free during its life
(first fit by size), 64-byte aligned. Workspaces are values that live during one call.

Views own nothing: a reshape lies where its source lies, and the operands of a pack lie inside the
pack, at the offsets of its layout. The gaps of a layout must stay zero, so a pack with gaps lives
from beginning to end: the arena is zeroed once, when it is allocated, and nobody else is placed
there.

What never gets a place: a value inside a fused body that nothing outside reads.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from noeira.errors import VerifyError
from noeira.ir.graph import ComputeGraph, Node, Update, Value
from noeira.ir.plan import ARENA, INPUT, LITERAL, OUTPUT, STATE, Call, Choose, Place, Plan
from noeira.ir.storage import readers, reshaped, writers
from noeira.planning.first_fit import Span, first_fit


def make_plan(graph: ComputeGraph, choose: Choose, target: str) -> Plan:
    """The plan of a scheduled graph. Raises VerifyError if an update cannot happen in place."""
    launching = graph.launching()
    choices = [choose(node) for node in launching]
    planner = Planner(graph, launching)
    planner.root_given()
    planner.root_updates()
    planner.root_outputs()
    planner.root_views()
    lives = planner.lifetimes()
    spans = [span for span in lives.values() if span.root == ARENA]
    workspaces = [
        Span(f"workspace {i}", ARENA, choice.workspace, i, i)
        for i, choice in enumerate(choices)
        if choice.workspace
    ]
    offsets, size = first_fit([*spans, *workspaces])
    calls = tuple(
        Call(node, choice, offsets.get(f"workspace {i}", 0))
        for i, (node, choice) in enumerate(zip(launching, choices, strict=True))
    )
    return Plan(graph, target, calls, planner.places(lives, offsets), size)


@dataclass
class Planner:
    """Finds, for each value, the root it lies in: (root, offset) or, for views, (value it lies in,
    offset).
    """

    graph: ComputeGraph
    launching: tuple[Node, ...]
    roots: dict[str, tuple[str, int]] = field(default_factory=dict)
    inside: dict[str, tuple[str, int]] = field(default_factory=dict)
    makers: dict[str, Node] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.makers = {v.name: node for node in self.graph.nodes for v in node.outputs}

    def root_given(self) -> None:
        """Inputs and states lie in their own memory, members inside their state."""
        for given in self.graph.inputs:
            self.roots[given.value.name] = (f"{INPUT} {given.value.name}", 0)
        for state in self.graph.states:
            root, kind = f"{STATE} {state.value.name}", state.value.type
            self.roots[state.value.name] = (root, 0)
            if state.members:
                item = kind.nbytes // max(kind.size, 1)
                for member in self.graph.layout(kind.layout or "").members:
                    self.roots[member.name] = (root, member.offset * item)

    def root_updates(self) -> None:
        """What updates a state takes over its memory."""
        bases, writing = reshaped(self.graph), writers(self.graph)
        reading = readers(self.graph, bases)
        for update in self.graph.updates:
            old, new = update.state, update.new
            maker = self.makers.get(new.name)
            written = maker is not None and (maker.op.launches or maker.op.name == "pack")
            if not written or new.name in self.roots:
                raise VerifyError(f"{old} cannot take {new}, which has a place already: copy it")
            names = {old.name, *(m.name for m in self.graph.state(old.name).members)}
            first = min(writing[new.name])
            last = max((i for name in names for i in reading.get(name, ())), default=-1)
            if last > first:
                raise VerifyError(f"{old} is read after {new} has taken its place: copy it before")
            if last == first and not takes_over(self.graph.nodes[first], update, names, bases):
                op = self.graph.nodes[first].op.name
                raise VerifyError(f"{op} cannot update {old} in place: copy {old} before")
            self.roots[new.name] = (f"{STATE} {old.name}", 0)

    def root_outputs(self) -> None:
        """What is returned lies in memory that the caller passes."""
        for value in self.graph.outputs:
            maker = self.makers.get(value.name)
            if value.name in self.roots or maker is None or not maker.op.launches:
                raise VerifyError(f"{value} is returned but has a place already: copy it")
            self.roots[value.name] = (f"{OUTPUT} {value.name}", 0)

    def root_views(self) -> None:
        """Literals, reshapes, and the operands of packs."""
        for node in self.graph.nodes:
            if node.op.name == "constant":
                text = literal_text(node)
                self.roots[node.outputs[0].name] = (f"{LITERAL} {text}", 0)
            elif node.op.name == "reshape":
                self.inside[node.outputs[0].name] = (node.inputs[0].name, 0)
            elif node.op.name == "pack":
                self.pack(node)

    def pack(self, node: Node) -> None:
        """The operands of a pack lie inside it."""
        whole = node.outputs[0]
        offsets = node.attrs.offsets  # type: ignore[attr-defined]
        item = whole.type.nbytes // whole.type.size
        for part, offset in zip(node.inputs, offsets, strict=True):
            if part.name in self.roots or part.name in self.inside:
                raise VerifyError(f"{part} is packed but has a place already: copy it")
            self.inside[part.name] = (whole.name, offset * item)

    def resolve(self, name: str) -> tuple[str, int]:
        """The value that a value lies in, and the offset there."""
        offset = 0
        while name in self.inside:
            name, more = self.inside[name]
            offset += more
        return name, offset

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
            spans[value.name] = [0, calls]
        for value in self.graph.results():
            base, _ = self.resolve(value.name)
            spans.setdefault(base, [calls, calls])[1] = calls
        for node in self.graph.nodes:
            if node.op.name == "pack" and has_gaps(node):
                base, _ = self.resolve(node.outputs[0].name)
                spans[base] = [0, calls]
        return {
            name: Span(name, self.roots.get(name, (ARENA, 0))[0], sizes[name], first, last)
            for name, (first, last) in spans.items()
        }

    def places(self, lives: dict[str, Span], offsets: dict[str, int]) -> tuple[Place, ...]:
        """A place for every value, in order of definition."""
        found = list[Place]()
        for value in self.graph.values():
            base, inner = self.resolve(value.name)
            span = lives.get(base)
            root, start = self.roots.get(base, (ARENA, 0))
            if root.startswith(LITERAL):
                found.append(Place(value.name, root))
            elif span is not None:
                offset = (offsets[base] if root == ARENA else start) + inner
                found.append(
                    Place(value.name, root, offset, value.type.nbytes, span.first, span.last)
                )
        return tuple(found)


def takes_over(node: Node, update: Update, names: set[str], bases: dict[str, str]) -> bool:
    """Whether a node may write the update over the state that it reads: as the one operand that its
    op allows.
    """
    if update.new not in node.outputs:
        return False
    allowed = node.op.aliases.get(node.outputs.index(update.new))
    if allowed is None or node.inputs[allowed] != update.state:
        return False
    return [i for i, v in enumerate(node.inputs) if bases.get(v.name, v.name) in names] == [allowed]


def has_gaps(node: Node) -> bool:
    """Whether a pack has elements that no operand writes."""
    return sum(v.type.size for v in node.inputs) < node.outputs[0].type.size


def literal_text(node: Node) -> str:
    """A constant as text."""
    value: Value = node.outputs[0]
    number = node.attrs.value  # type: ignore[attr-defined]
    return repr(float(number)) if value.type.is_float else repr(int(number))
