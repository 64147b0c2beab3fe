"""prepare: what `fold` made of parameters and buffers lies in a state, made once for many calls.

Of the graph before,

    %0.weight.folded = multiply(%0.weight, %factor)              by fold
    %0.convolution = convolution(%x, %0.weight.folded, …)

one entry keeps what makes such values, and another what reads them:

    state %folded: f32 @folded                         state %folded: f32 @folded members
    %0.weight.folded = multiply(%0.weight, …)          %0.convolution = convolution(%x, …)
    %folded.next = pack(%0.weight.folded, …)
    update %folded = %folded.next

The first is to be called again before the second whenever parameters or buffers may have changed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from noeira.errors import VerifyError
from noeira.ir.builder import Builder
from noeira.ir.graph import ROOT, ComputeGraph, Node, Origin, State, Value
from noeira.ir.layouts import Layout, lay_out
from noeira.ir.states import FOLDED
from noeira.ir.types import TensorType
from noeira.passes.base import Pass
from noeira.passes.dce import live_nodes
from noeira.passes.fold import Fold, fixed_names


@dataclass(frozen=True)
class Prepare(Pass):
    """Read what is prepared in the state %folded, or, with `makes`, prepare it and nothing else."""

    name: ClassVar[str] = "prepare"
    makes: bool = False

    def __call__(self, graph: ComputeGraph) -> ComputeGraph:
        values = prepared(graph)
        if not values:
            return graph
        return self.making(graph, values) if self.makes else self.reading(graph, values)

    def making(self, graph: ComputeGraph, values: tuple[Value, ...]) -> ComputeGraph:
        """What makes the values, and puts them side by side."""
        own = replace(graph, inputs=(), outputs=values, updates=())
        layout = layout_of(values)
        builder = Builder.of(replace(own, nodes=tuple(live_nodes(own))))
        builder.layouts.append(layout)
        orders = tuple(member.order for member in layout.members)
        with builder.at(Origin(ROOT, "folded weights", self.name)):
            state = builder.state(FOLDED, flat(layout, values))
            made = builder.emit(
                "pack",
                *values,
                layout=layout.name,
                size=layout.size,
                offsets=tuple(member.offset for member in layout.members),
                orders=orders if any(orders) else (),
                hint=f"{FOLDED}.next",
            )
            builder.update(state, made)
        return builder.done(())

    def reading(self, graph: ComputeGraph, values: tuple[Value, ...]) -> ComputeGraph:
        """What reads the values, which are members of the state."""
        layout, names = layout_of(values), {v.name for v in values}
        rest = tuple(n for n in graph.nodes if names.isdisjoint(v.name for v in n.outputs))
        live = {id(node) for node in live_nodes(replace(graph, nodes=rest))}
        fixed = fixed_nodes(graph)
        state = State(Value(FOLDED, flat(layout, values)), values, (), self.name)
        return replace(
            graph,
            layouts=(*graph.layouts, layout),
            states=(*graph.states, state),
            nodes=tuple(n for n in rest if id(n) in live or id(n) not in fixed),
        )

    def check(self, before: ComputeGraph, after: ComputeGraph) -> None:
        """What is left out makes nothing that is read, but what the state has; the rest is as it
        was.
        """
        own = [node for node in after.nodes if node.origin.by != self.name]
        kept, fixed = set(map(id, own)), fixed_nodes(before)
        left_out = {id(node) for node in before.nodes} - kept
        if len(kept) + len(left_out) != len(before.nodes):
            raise VerifyError("prepare changed more than the list of nodes")
        if self.makes:
            if not kept <= fixed:
                raise VerifyError("prepare: what is prepared reads what callers give")
        elif not left_out <= fixed or after.outputs != before.outputs:
            raise VerifyError("prepare left out a node that reads what callers give")


def fixed_nodes(graph: ComputeGraph) -> set[int]:
    """The nodes, as ids, that read nothing but parameters, buffers and each other."""
    known, found = fixed_names(graph), set[int]()
    for node in graph.nodes:
        if all(v.name in known for v in node.inputs):
            known |= {v.name for v in node.outputs}
            found.add(id(node))
    return found


def prepared(graph: ComputeGraph) -> tuple[Value, ...]:
    """The values that `fold` has made for others of parameters and buffers, in order."""
    fixed = fixed_nodes(graph)
    read = {v.name for n in graph.nodes if id(n) not in fixed for v in n.inputs}

    def is_made(node: Node) -> bool:
        return id(node) in fixed and node.origin.by == Fold.name

    made = (v for node in graph.nodes if is_made(node) for v in node.outputs)
    return tuple(v for v in made if v.name in read)


def layout_of(values: tuple[Value, ...]) -> Layout:
    """How values lie side by side in the state."""
    shapes = {v.name: v.type.shape for v in values}
    return lay_out(FOLDED, shapes, (), {v.name: v.type.order for v in values})


def flat(layout: Layout, values: tuple[Value, ...]) -> TensorType:
    """The type of the state."""
    return TensorType(values[0].type.dtype, (layout.size,), layout.name)
