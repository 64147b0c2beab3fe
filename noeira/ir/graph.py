"""What a program is: values, nodes, states and the graph they make, all frozen.

A `ComputeGraph` is named SSA in topological order, and graph order is launch order. States are
memory that outlives a step: a graph reads their value at its start, and `updates` give their value
at its end. Every node says where it comes from (`origin`), which fused type asked for it (`group`),
and the part of the network around it that keeps no values for the backward pass (`region`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from noeira.ir.kinds import Kind, kind_called
from noeira.ir.layouts import Layout, Member
from noeira.ir.orders import laid
from noeira.ir.types import TensorType
from noeira.ir.value import Value

if TYPE_CHECKING:
    from noeira.ir.op import Op
    from noeira.ir.storage import Storage

T = TypeVar("T")
# What vjp emits for a node of group `0` is stamped `0~`; what recompute copies of it, `0^`.
ADJOINT, RECOMPUTED = "~", "^"
# The stamp of what is there before any pass.
TRACE = "trace"
# The path of the network itself, where a group or an origin needs a name for it.
ROOT = "net"


@dataclass(frozen=True)
class Attrs:
    """The attributes of a node; each op that has some derives its own frozen class."""


def attr_items(attrs: Any) -> list[tuple[str, Any]]:
    """The fields of a dataclass that differ from their defaults (as -0.0 does from 0.0), in order
    of declaration.
    """
    pairs = [(f, getattr(attrs, f.name)) for f in fields(attrs)]
    return [(f.name, value) for f, value in pairs if repr(value) != repr(f.default)]


@dataclass(frozen=True)
class Origin:
    """Why a node exists: the path of the module it serves, that module's type, and the pass that
    emitted it.
    """

    path: str
    type: str
    by: str

    def __str__(self) -> str:
        return f"from {self.path}: {self.type} by {self.by}"


@dataclass(frozen=True)
class Node:
    """One operation; a fused node carries the plain nodes it is made of as its body.

    region: the innermost that it is in, "" if it is in none. order: of a node as it lies in memory,
    that which its first result was in before: random numbers follow from the number of an element
    along the axes that users count.
    """

    op: Op
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    attrs: Attrs
    origin: Origin
    group: str = ""
    body: tuple[Node, ...] = ()
    region: str = ""
    order: str = ""

    @property
    def parts(self) -> tuple[Node, ...]:
        """The plain nodes: the body of a fused node, or the node itself."""
        return self.body or (self,)

    @property
    def operands(self) -> tuple[str, ...]:
        """What each input is, by the op's own names."""
        return self.op.operand_names(self.attrs, len(self.inputs))

    @property
    def results(self) -> tuple[str, ...]:
        """What each output is, by the op's own names."""
        return self.op.given_results(self.attrs)

    def arguments(self, given: Sequence[T]) -> tuple[T | None, ...]:
        """What is given for each input, as an entry for each operand of the op, see
        `Op.arguments`.
        """
        return self.op.arguments(self.attrs, given)

    @cached_property
    def types(self) -> tuple[TensorType | None, ...]:
        """The type of each operand of the op; None of one that is not given."""
        return self.arguments([v.type for v in self.inputs])

    @property
    def rows_at(self) -> int:
        """Which input the kernel of an anchor runs over the rows of."""
        return self.operands.index(self.op.rows_name)

    @cached_property
    def storage(self) -> Storage | None:
        """Where the result of a view lies; None for what a kernel makes."""
        return self.op.storage(self.attrs, tuple(v.type for v in self.inputs))

    @property
    def launches(self) -> bool:
        """Whether it is a call when the program runs; views only name memory."""
        return self.storage is None

    @cached_property
    def rule(self) -> tuple[TensorType, ...]:
        """The types that the op's shape rule gives; asked once, however many passes keep the node.

        Raises ShapeError or DtypeError if the operands do not go together.
        """
        return self.op.types(self.attrs, [v.type for v in self.inputs])

    @cached_property
    def laid(self) -> Node:
        """The node as kernels see it, see `noeira.ir.orders`."""
        return laid(self)

    @cached_property
    def kind(self) -> Kind:
        """What a kernel may join it with, see `Op.kind_of`."""
        lies = self.laid
        return kind_called(lies.op.kind_of(lies.attrs, *lies.types), self.op.name)

    @cached_property
    def rows(self) -> TensorType:
        """What the kernel of an anchor takes row by row, see `Op.rows`."""
        lies = self.laid
        return lies.op.rows(lies.attrs, *lies.types)

    def __str__(self) -> str:
        from noeira.ir.text.printer import node_lines

        return "\n".join(node_lines(self))


@dataclass(frozen=True)
class Input:
    """What the caller gives at each call; an index input is below `limit`."""

    value: Value
    limit: int | None = None


@dataclass(frozen=True)
class State:
    """Memory that outlives a step.

    `members`: the parts that the layout names are values of their own, under the names of the
    layout. `initial`: how its elements begin, as texts of distributions: one for each member, or a
    single one. `by`: the pass that declared it.
    """

    value: Value
    members: tuple[Value, ...] = ()
    initial: tuple[str, ...] = ()
    by: str = TRACE


@dataclass(frozen=True)
class Group:
    """A fused module: its path, and the type that asked for the fusion as the user writes it."""

    path: str
    type: str


@dataclass(frozen=True)
class Region:
    """A part of the network that keeps only what it takes and gives until the backward pass, which
    computes the rest again: its path, the type that asked for it, and the region it lies in, "" for
    none.
    """

    path: str
    type: str
    outer: str = ""


@dataclass(frozen=True)
class Update:
    """At the end of the step the state's value is `new`."""

    state: Value
    new: Value

    def names(self) -> tuple[str, str]:
        """The names of both."""
        return self.state.name, self.new.name


@dataclass(frozen=True)
class ComputeGraph:
    """A program: inputs and states to outputs and updates."""

    name: str
    layouts: tuple[Layout, ...]
    inputs: tuple[Input, ...]
    states: tuple[State, ...]
    groups: tuple[Group, ...]
    nodes: tuple[Node, ...]
    updates: tuple[Update, ...]
    outputs: tuple[Value, ...]
    regions: tuple[Region, ...] = ()

    @property
    def network(self) -> str:
        """The first part of the name: `mlp` of `mlp.steps.last`."""
        return self.name.partition(".")[0]

    @property
    def entry(self) -> str:
        """The rest of the name: `steps.last` of `mlp.steps.last`."""
        return self.name.partition(".")[2]

    def given(self) -> Iterator[Value]:
        """Every value that exists before the first node runs."""
        yield from (i.value for i in self.inputs)
        for state in self.states:
            yield state.value
            yield from state.members

    def results(self) -> Iterator[Value]:
        """Every value that is read after the last node has run."""
        yield from self.outputs
        yield from (u.new for u in self.updates)

    def values(self) -> Iterator[Value]:
        """Every value, in order of definition; those inside fused bodies that nothing outside reads
        are left out.
        """
        yield from self.given()
        for node in self.nodes:
            yield from node.outputs

    def launching(self) -> tuple[Node, ...]:
        """The nodes that are calls when the program runs; views are not."""
        return tuple(n for n in self.nodes if n.launches)

    def state(self, name: str) -> State:
        """The state called `name`; KeyError if there is none."""
        for state in self.states:
            if state.value.name == name:
                return state
        raise KeyError(name)

    def members(self, state: State) -> list[tuple[Value, Member]]:
        """The members of a state that are values of their own, and where each lies in it."""
        if not state.members:
            return []
        layout = self.layout(state.value.type.layout or "")
        return list(zip(state.members, layout.members, strict=True))

    def layout(self, name: str) -> Layout:
        """The layout called `name`; KeyError if there is none."""
        for layout in self.layouts:
            if layout.name == name:
                return layout
        raise KeyError(name)

    def group_of(self, stamp: str) -> Group:
        """The fused module behind a stamp such as `0`, `0~` or `0^`; KeyError if no type asked for
        it.
        """
        return self.groups_by_path[stamp.rstrip(ADJOINT + RECOMPUTED)]

    @cached_property
    def groups_by_path(self) -> dict[str, Group]:
        """The groups by path."""
        return {group.path: group for group in self.groups}

    def same_as(self, other: ComputeGraph) -> bool:
        """Equality up to the names of values, of the graph, and of origins."""
        return canonical(self) == canonical(other)

    def __str__(self) -> str:
        from noeira.ir.text.printer import graph_text

        return graph_text(self)


def canonical(graph: ComputeGraph, groups: bool = True) -> ComputeGraph:
    """The graph with values numbered in order of definition and origins dropped; `groups=False`
    erases groups too.
    """
    names: dict[str, str] = {}

    def value(v: Value) -> Value:
        return replace(v, name=names.setdefault(v.name, str(len(names))))

    def node(n: Node) -> Node:
        return Node(
            n.op,
            tuple(map(value, n.inputs)),
            tuple(map(value, n.outputs)),
            n.attrs,
            Origin("", "", ""),
            n.group if groups else "",
            tuple(map(node, n.body)),
            n.region,
        )

    return ComputeGraph(
        "",
        graph.layouts,
        tuple(replace(i, value=value(i.value)) for i in graph.inputs),
        tuple(State(value(s.value), tuple(map(value, s.members)), s.initial) for s in graph.states),
        graph.groups if groups else (),
        tuple(map(node, graph.nodes)),
        tuple(Update(value(u.state), value(u.new)) for u in graph.updates),
        tuple(map(value, graph.outputs)),
        graph.regions,
    )
