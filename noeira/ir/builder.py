"""The builder: collects the nodes of a graph one after the other, each under a name of its own."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from noeira.errors import VerifyError
from noeira.ir.attributes import filled
from noeira.ir.graph import (
    ROOT,
    TRACE,
    ComputeGraph,
    Group,
    Input,
    Node,
    Origin,
    Region,
    State,
    Update,
)
from noeira.ir.layouts import Layout
from noeira.ir.op import op
from noeira.ir.types import TensorType
from noeira.ir.value import Value

# The origin of what is emitted outside `at`.
NETWORK = Origin(ROOT, "", TRACE)
# What the results of a node are to be called: the first, the others then by their own names after
# it (`norm`, `norm.mean`), or each. A name that is taken gets a number (`norm.1`).
Hint = str | tuple[str, ...]


def each_hint(hint: Hint, results: Sequence[str]) -> tuple[str, ...]:
    """A hint for every result of a node. results: the names of those that there are."""
    if isinstance(hint, tuple):
        return hint
    return (hint, *(f"{hint}.{name}" for name in results[1:]))


def check_values(name: str, inputs: Sequence[Any]) -> None:
    """Raises VerifyError if something that is to be an operand is no value."""
    for position, given in enumerate(inputs):
        if not isinstance(given, Value):
            shown = f"{given!r}: an operand that is not given is left out"
            if isinstance(given, tuple):
                shown = f"a tuple of {len(given)}: name one of its values, or write *values"
            elif given is not None:
                shown = f"{given!r}, which is no value of the graph"
            raise VerifyError(f"{name}: operand {position} is {shown}")


def unlike(taken: set[str], path: str) -> str:
    """The path, or `path.1`, `path.2`, … if it is taken; then that is taken."""
    name, count = path, 0
    while name in taken:
        count += 1
        name = f"{path}.{count}"
    taken.add(name)
    return name


@dataclass
class Builder:
    """Collects nodes; `origin`, `group` and `region` are stamped on everything emitted inside `at`.

    names: those taken, of groups `stamps`, of regions `places`. counts: the last number that each
    hint was given.
    """

    name: str
    layouts: list[Layout] = field(default_factory=list)
    inputs: list[Input] = field(default_factory=list)
    states: list[State] = field(default_factory=list)
    groups: list[Group] = field(default_factory=list)
    regions: list[Region] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    updates: list[Update] = field(default_factory=list)
    names: set[str] = field(default_factory=set)
    counts: dict[str, int] = field(default_factory=dict)
    stamps: set[str] = field(default_factory=set)
    places: set[str] = field(default_factory=set)
    origin: Origin = NETWORK
    stamp: str = ""
    within: str = ""

    @classmethod
    def of(cls, graph: ComputeGraph) -> Builder:
        """A builder that goes on from a graph."""
        return cls(
            graph.name,
            list(graph.layouts),
            list(graph.inputs),
            list(graph.states),
            list(graph.groups),
            list(graph.regions),
            list(graph.nodes),
            list(graph.updates),
            {v.name for v in graph.given()}
            | {v.name for node in graph.nodes for part in node.parts for v in part.outputs},
            stamps={group.path for group in graph.groups},
            places={region.path for region in graph.regions},
        )

    def values(self) -> dict[str, Value]:
        """All values that there are so far, by name."""
        states = (v for state in self.states for v in (state.value, *state.members))
        made = (v for node in self.nodes for v in node.outputs)
        return {v.name: v for v in (*(one.value for one in self.inputs), *states, *made)}

    def fresh(self, hint: str) -> str:
        """`hint`, or `hint.1`, `hint.2`, … if it is taken."""
        name, count = hint, self.counts.get(hint, 0)
        while name in self.names:
            count += 1
            name = f"{hint}.{count}"
        self.counts[hint] = count
        self.names.add(name)
        return name

    def declared(self, value: Value) -> Value:
        """An input, a state or a member, whose name is a promise to the caller: never changed.

        Raises VerifyError if it is taken.
        """
        if value.name in self.names:
            raise VerifyError(
                f"@{self.name}: {value} is declared twice: "
                "a parameter, state or input has that name"
            )
        self.names.add(value.name)
        return value

    def input(self, name: str, type: TensorType, limit: int | None = None) -> Value:
        """Declare an input."""
        value = self.declared(Value(name, type))
        self.inputs.append(Input(value, limit))
        return value

    def state(
        self,
        name: str,
        type: TensorType,
        members: Iterable[Value] = (),
        initial: Iterable[str] = (),
    ) -> Value:
        """Declare a state."""
        value, members = self.declared(Value(name, type)), tuple(map(self.declared, members))
        self.states.append(State(value, members, tuple(initial), self.origin.by))
        return value

    def group(self, path: str, type: str) -> str:
        """Declare that a fused type at `path` asks for its nodes to be one kernel; gives the name
        of the group: a type that is run again at its place is another kernel there.
        """
        self.groups.append(Group(unlike(self.stamps, path), type))
        return self.groups[-1].path

    def region(self, path: str, type: str, outer: str = "") -> str:
        """Declare that the type at `path`, in the region `outer`, keeps nothing of what is inside
        for the backward pass; gives the name of the region.
        """
        self.regions.append(Region(unlike(self.places, path), type, outer))
        return self.regions[-1].path

    def update(self, state: Value, new: Value) -> None:
        """Give the value of `state` at the end of the step."""
        self.updates.append(Update(state, new))

    @contextlib.contextmanager
    def at(self, origin: Origin, group: str = "", region: str | None = None) -> Iterator[None]:
        """Stamp what is emitted inside; without a region with the one around."""
        before = self.origin, self.stamp, self.within
        self.origin, self.stamp = origin, group
        self.within = self.within if region is None else region
        try:
            yield
        finally:
            self.origin, self.stamp, self.within = before

    def emit(self, name: str, *inputs: Value, hint: Hint = "", **attrs: Any) -> Any:
        """Emit one node of the op called `name`; gives its output, or the tuple of its outputs.

        hint: the name of the op, unless given.
        Raises ShapeError or DtypeError if the operands do not go together, VerifyError if there is
        no such op, an operand is no value, or an attribute is not as the op declares it.
        """
        rule = op(name)
        check_values(name, inputs)
        packed = filled(rule.name, rule.Attrs, attrs)
        types = rule.types(packed, [v.type for v in inputs])
        hints = each_hint(hint or name, rule.given_results(packed))
        outputs = tuple(Value(self.fresh(h), t) for h, t in zip(hints, types, strict=True))
        made = Node(rule, inputs, outputs, packed, self.origin, self.stamp, region=self.within)
        self.nodes.append(made)
        return outputs[0] if len(outputs) == 1 else outputs

    def rename(self, start: int, hints: Mapping[str, str]) -> dict[str, Value]:
        """Give results of the nodes from `start` on other names; gives the values by their old
        names. Nothing but those nodes may have read them.
        """
        changed: dict[str, Value] = {}
        for index, node in enumerate(self.nodes[start:], start):
            for value in node.outputs:
                if value.name in hints:
                    self.names.discard(value.name)
                    changed[value.name] = Value(self.fresh(hints[value.name]), value.type)
            if any(v.name in changed for v in (*node.inputs, *node.outputs)):
                inputs = tuple(changed.get(v.name, v) for v in node.inputs)
                outputs = tuple(changed.get(v.name, v) for v in node.outputs)
                self.nodes[index] = replace(node, inputs=inputs, outputs=outputs)
        return changed

    def done(self, outputs: Iterable[Value]) -> ComputeGraph:
        """The graph."""
        return ComputeGraph(
            self.name,
            tuple(self.layouts),
            tuple(self.inputs),
            tuple(self.states),
            tuple(self.groups),
            tuple(self.nodes),
            tuple(self.updates),
            tuple(outputs),
            tuple(self.regions),
        )
