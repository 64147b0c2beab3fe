"""What surrounds the gradients of a step, in numbers: clipping, schedule, optimizer, averages, and
what groups of parameters have of their own.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any

from noeira.ir.graph import ComputeGraph, Node
from noeira.ir.groups import Groups, group_of
from noeira.ir.ops.optimizer import Optimizer
from noeira.ir.random import Distribution
from noeira.ir.ranges import Numbers
from noeira.ir.states import EPOCH_STEPS, LEARNING_RATE, PARAMS
from noeira.report.table import filled, plural

# Passes whose nodes are told of.
PASSES = ("clip", "anneal", "update", "ema")
# Attributes that stand elsewhere: by group, and for none in all.
BY_GROUP = ("ranges", "lr_factor")
# So many names of parameters are told.
NAMES = 4


@dataclass(frozen=True)
class Members:
    """Parameters with numbers of their own: their names, and the pattern of their group, "" if they
    are in none or nobody knows. numbers: None if they are frozen.
    """

    names: tuple[str, ...]
    pattern: str
    numbers: Numbers | None

    @property
    def text(self) -> str:
        """`0.*: frozen (2 parameters: 0.weight, 0.bias)`"""
        told = "frozen" if self.numbers is None else ", ".join(map(number_text, self.numbers))
        shown = ", ".join((*self.names[:NAMES], *(["…"] if len(self.names) > NAMES else [])))
        group = f"{self.pattern}: " if self.pattern else ""
        return f"{group}{told} ({plural(len(self.names), 'parameter')}: {shown})"

    def to_json(self) -> dict[str, Any]:
        """The members as an object."""
        numbers = None if self.numbers is None else dict(self.numbers)
        return {"pattern": self.pattern, "parameters": list(self.names), "numbers": numbers}


@dataclass(frozen=True)
class Surrounding:
    """A node around the gradients: its op, its numbers by name, and the parameters that have others
    than these. unit: what lengths of a schedule are counted in.
    """

    op: str
    numbers: dict[str, Any]
    members: tuple[Members, ...] = ()
    unit: str = ""

    def lines(self, width: int) -> list[str]:
        """The node, and a line for each group, in lines of at most `width` characters, 0 for any
        number.
        """
        told = ", ".join(f"{name} = {value!r}" for name, value in self.numbers.items())
        unit = f", in {self.unit}" if self.unit else ""
        own = filled(f"{self.op}: {told}{unit}", width, 2)
        return [*own, *(line for m in self.members for line in filled(m.text, width, 4))]

    def to_json(self) -> dict[str, Any]:
        """The node as an object."""
        members = [one.to_json() for one in self.members]
        return {"op": self.op, "numbers": self.numbers, "unit": self.unit, "groups": members}


def number_text(pair: tuple[str, float]) -> str:
    """`lr × 10.0`, `weight_decay = 0.0`"""
    name, value = pair
    return f"lr × {value!r}" if name == "lr_factor" else f"{name} = {value!r}"


def surroundings(graph: ComputeGraph, groups: Groups = ()) -> tuple[Surrounding, ...]:
    """What surrounds the gradients of a graph, in order. groups: with whose patterns it is made."""
    parts = (part for node in graph.nodes for part in node.parts if part.origin.by in PASSES)
    found = (surrounding(part, graph, groups) for part in parts)
    return tuple(one for one in found if one.numbers)


def surrounding(node: Node, graph: ComputeGraph, groups: Groups) -> Surrounding:
    """What a node is told to do."""
    numbers = dict(numbers_of(node))
    if isinstance(node.op, Optimizer):
        members = tuple(members_of(node, graph, groups))
        return Surrounding(node.op.name, {**rate_of(graph), **numbers}, members)
    unit = ""
    if node.origin.by == "anneal":
        unit = "epochs" if any(v.name == EPOCH_STEPS for v in node.inputs) else "updates"
    return Surrounding(node.op.name, numbers, unit=unit)


def numbers_of(node: Node) -> Iterator[tuple[str, Any]]:
    """The attributes of a node by name; of flags those that are not as by default."""
    for field in fields(node.attrs):
        value = getattr(node.attrs, field.name)
        if field.name not in BY_GROUP and not (value is field.default and value in (True, False)):
            yield field.name, value


def rate_of(graph: ComputeGraph) -> dict[str, float]:
    """The learning rate that a program begins with."""
    (text,) = graph.state(LEARNING_RATE).initial
    return {"lr": Distribution.parse(text).args[0]}


def members_of(node: Node, graph: ComputeGraph, groups: Groups) -> Iterator[Members]:
    """The parameters that an optimizer's table of ranges says something of, by group: in the order
    of the groups, then those in none.
    """
    attrs: Any = node.attrs
    if not attrs.ranges:
        return
    layout = graph.layout(graph.state(PARAMS).value.type.layout or "")
    found = defaultdict[tuple[int, Numbers | None], list[str]](list)
    for member in layout.members:
        own = next((r.numbers for r in attrs.ranges if r.start <= member.offset < r.stop), None)
        at = group_of(member.name, groups)
        if own != ():
            found[len(groups) if at is None else at, own].append(member.name)
    for at, own in sorted(found, key=lambda kind: kind[0]):
        pattern = groups[at][0] if at < len(groups) else ""
        yield Members(tuple(found[at, own]), pattern, own)
