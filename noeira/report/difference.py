"""What differs between two graphs or plans: new, gone, changed and renamed nodes, and a listing."""

from __future__ import annotations

import difflib
from collections import defaultdict
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from typing import Any

from noeira.ir.graph import ComputeGraph, Node, Origin, State, Update, Value
from noeira.ir.plan import Plan, call_text, place_text
from noeira.ir.text.dump import Dump
from noeira.ir.text.printer import node_lines
from noeira.report.table import plural


@dataclass(frozen=True)
class Difference:
    """What a second graph, or plan, has that a first has not, by the first result of each node.

    renamed: pairs of names under which both have the same node. facts: what differs of plans
    beside their graphs, a line each. lines: a unified listing of the whole texts, empty if they are
    equal.
    """

    new: tuple[str, ...]
    gone: tuple[str, ...]
    changed: tuple[str, ...]
    renamed: tuple[tuple[str, str], ...]
    lines: tuple[str, ...]
    kind: str = "graphs"
    facts: tuple[str, ...] = ()

    @property
    def same(self) -> bool:
        """Whether there is none."""
        return not self.lines

    def __str__(self) -> str:
        if self.same:
            return f"the {self.kind} are the same"
        kinds = {
            "new": self.new,
            "gone": self.gone,
            "changed": self.changed,
            "renamed": [f"{old} to %{new}" for old, new in self.renamed],
        }
        found = [counted("node", kind, names) for kind, names in kinds.items() if names]
        return "\n".join([*(found or ["no node differs"]), *self.facts, "", *self.lines])


def counted(noun: str, kind: str, names: Collection[str]) -> str:
    """`2 nodes changed: %0.linear, %loss`"""
    return f"{plural(len(names), noun)} {kind}: {', '.join(f'%{name}' for name in names)}"


def difference(old: Dump, new: Dump, names: tuple[str, str] = ("a", "b")) -> Difference:
    """How `new` differs from `old`; `names` head the listing."""
    before, after = by_name(old.graph), by_name(new.graph)
    gone = [name for name in before if name not in after]
    added = [name for name in after if name not in before]
    pairs = renamed_nodes(old.graph, new.graph)
    renamed = [(name, pairs[name]) for name in gone if pairs.get(name) in added]
    moved = {name for pair in renamed for name in pair}
    changed = [
        name for name, node in before.items() if name in after and text(node) != text(after[name])
    ]
    return Difference(
        tuple(name for name in added if name not in moved),
        tuple(name for name in gone if name not in moved),
        tuple(changed),
        tuple(renamed),
        listing(str(old), str(new), names),
    )


def plan_difference(old: Plan, new: Plan, names: tuple[str, str] = ("a", "b")) -> Difference:
    """How two plans differ: their graphs, how calls are cut, and where values lie."""
    found = difference(Dump(old.graph), Dump(new.graph), names)
    facts = tuple(plan_facts(old, new))
    return replace(found, lines=listing(str(old), str(new), names), kind="plans", facts=facts)


def plan_facts(old: Plan, new: Plan) -> Iterator[str]:
    """What differs of plans beside their graphs."""
    if old.target != new.target:
        yield f"target: {old.target} to {new.target}"
    if old.arena != new.arena:
        yield f"arena: {old.arena:,} to {new.arena:,} bytes"
    calls = [{c.node.outputs[0].name: call_text(c) for c in plan.calls} for plan in (old, new)]
    places = [{p.name: place_text(p) for p in plan.places} for plan in (old, new)]
    for noun, (before, after) in (("call", calls), ("place", places)):
        changed = [n for n, line in before.items() if n in after and after[n] != line]
        if changed:
            yield counted(noun, "changed", changed)


def without_names(old: Dump, new: Dump, names: tuple[str, str] = ("a", "b")) -> Difference:
    """As `difference`, but the names of values, the graph's own, and origins do not count."""
    if old.graph.same_as(new.graph):
        return Difference((), (), (), (), ())
    theirs = replace(renamed_to(old.graph, new.graph), name=old.graph.name)
    return difference(Dump(without_origins(old.graph)), Dump(without_origins(theirs)), names)


def by_name(graph: ComputeGraph) -> dict[str, Node]:
    """The nodes by their first result."""
    return {node.outputs[0].name: node for node in graph.nodes}


def text(node: Node) -> str:
    """A node as it is printed."""
    return "\n".join(node_lines(node))


def listing(old: str, new: str, names: tuple[str, str]) -> tuple[str, ...]:
    """A unified listing with three lines around each change."""
    return tuple(difflib.unified_diff(old.splitlines(), new.splitlines(), *names, n=3, lineterm=""))


def structure(graph: ComputeGraph, keys: dict[Any, int]) -> dict[str, int]:
    """A number for every node, by its first result: equal for equal operations on equal operands.

    Inputs and states are known by their names, everything else by how it is computed. `keys` holds
    the numbers given so far, to be shared between graphs.
    """
    known: dict[str, Any] = {value.name: value for value in graph.given()}
    found: dict[str, int] = {}
    for node in graph.nodes:
        operands = tuple(known[value.name] for value in node.inputs)
        key = (operands, inner_structure(node), node.group, node.region)
        number = keys.setdefault(key, len(keys))
        found[node.outputs[0].name] = number
        known.update({value.name: (number, i) for i, value in enumerate(node.outputs)})
    return found


def inner_structure(node: Node) -> tuple[Any, ...]:
    """What a node does to its operands, whatever they are called."""
    number = {value.name: i for i, value in enumerate(node.inputs)}
    parts = list[Any]()
    for part in node.parts:
        operands = tuple(number[value.name] for value in part.inputs)
        parts.append((part.op.name, part.attrs, operands, tuple(v.type for v in part.outputs)))
        number.update({value.name: len(number) + i for i, value in enumerate(part.outputs)})
    return (*parts, tuple(number[value.name] for value in node.outputs))


def renamed_nodes(old: ComputeGraph, new: ComputeGraph) -> dict[str, str]:
    """The names in `old` of nodes that `new` has too, and their names there."""
    keys: dict[Any, int] = {}
    places = defaultdict[int, list[str]](list)
    for name, key in structure(new, keys).items():
        places[key].append(name)
    found: dict[str, str] = {}
    for name, key in structure(old, keys).items():
        if places[key]:
            found[name] = places[key].pop(0)
    return found


def renamed_to(old: ComputeGraph, new: ComputeGraph) -> ComputeGraph:
    """`new` with what `old` has too under the names it has there: inputs, states, equal nodes."""
    given, theirs = list(new.given()), list(old.given())
    if [value.type for value in given] == [value.type for value in theirs]:
        pairs = zip(given, theirs, strict=True)
        new = renamed(new, {value.name: like.name for value, like in pairs})
    before, after = by_name(old), by_name(new)
    wanted: dict[str, str] = {}
    for old_name, new_name in renamed_nodes(old, new).items():
        outputs = zip(after[new_name].outputs, before[old_name].outputs, strict=True)
        wanted |= {value.name: like.name for value, like in outputs}
    return renamed(new, wanted)


def renamed(graph: ComputeGraph, names: dict[str, str]) -> ComputeGraph:
    """The graph with values called as `names` says; others that are called so step aside."""
    taken = set(names.values())

    def value(v: Value) -> Value:
        aside = f"{v.name}.other" if v.name in taken else v.name
        return replace(v, name=names.get(v.name, aside))

    def node(n: Node) -> Node:
        inputs, outputs = tuple(map(value, n.inputs)), tuple(map(value, n.outputs))
        return replace(n, inputs=inputs, outputs=outputs, body=tuple(map(node, n.body)))

    def state(s: State) -> State:
        return replace(s, value=value(s.value), members=tuple(map(value, s.members)))

    return replace(
        graph,
        inputs=tuple(replace(i, value=value(i.value)) for i in graph.inputs),
        states=tuple(map(state, graph.states)),
        nodes=tuple(map(node, graph.nodes)),
        updates=tuple(Update(value(u.state), value(u.new)) for u in graph.updates),
        outputs=tuple(map(value, graph.outputs)),
    )


def without_origins(graph: ComputeGraph) -> ComputeGraph:
    """The graph with nothing said of where its nodes come from."""

    def node(n: Node) -> Node:
        return replace(n, origin=Origin("-", "-", "-"), body=tuple(map(node, n.body)))

    return replace(graph, nodes=tuple(map(node, graph.nodes)))
