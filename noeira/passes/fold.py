"""fold: a normalisation by running statistics goes into the weight and the bias before it.

    %0.convolution = convolution(%x, %0.weight, %0.bias)
    %1.normalize = normalize(%0.convolution, %mean, %rstd, %gain, %shift)
    %2.relu = relu(%1.normalize)

becomes

    %0.weight.folded = multiply(%0.weight, %factor)                                by fold
    %1.normalize.folded = normalize(%0.bias, %mean, %rstd, %gain, %shift)          by fold
    %0.convolution = convolution(%x, %0.weight.folded, %1.normalize.folded)
    %2.relu = relu(%0.convolution)

where %factor = %rstd·%gain, each in the shape that fits (views are left out here). It is done where
the statistics, gain and shift follow from parameters and buffers, and nothing else reads what is
normalised, in fused types too: the rest of one goes on with the convolution, in one kernel.

It is the one pass that changes numbers: each product with a weight is rounded once more, and sums
go another way. Of f32, results stay within 1e-5 of the largest, of f64 within 1e-12, where
reciprocal deviations and gains are ordinary numbers.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from noeira.ir.broadcasting import aligned
from noeira.ir.builder import Builder
from noeira.ir.filters import Filters
from noeira.ir.fused import is_whole, viewed, views_of, with_views
from noeira.ir.graph import TRACE, ComputeGraph, Node, Origin, Value
from noeira.ir.ops.normalize import Normalize
from noeira.ir.order import topological
from noeira.ir.states import BUFFERS, PARAMS
from noeira.ir.types import TensorType
from noeira.passes.base import Pass, same_nodes
from noeira.passes.fuse import Work

Makers = Mapping[str, Node]
# What is behind the names of what it emits.
FOLDED = ".folded"


@dataclass(frozen=True)
class Fold(Pass):
    """Fold what can be folded. A graph without any such is itself."""

    name: ClassVar[str] = "fold"

    def __call__(self, graph: ComputeGraph) -> ComputeGraph:
        for node in graph.nodes:
            if isinstance(node.op, Normalize) and (found := folding(graph, node)):
                graph = found.done(graph, self.name) or graph
        return graph

    def undo(self, graph: ComputeGraph) -> ComputeGraph:
        makers, renamed = makers_of(graph), dict[str, Value]()
        before, added = dict[str, Node](), list[Node]()
        for node in graph.nodes:
            if isinstance(node.op, Filters) and is_folded(node, makers, self.name):
                was = Before(node, makers)
                before |= {one.outputs[0].name: one for one in (was.filters, *was.statistics())}
                added.append(was.normalize)
                renamed[was.normalize.inputs[0].name] = was.normalize.outputs[0]

        def read(node: Node) -> Node:
            inputs = tuple(renamed.get(v.name, v) for v in node.inputs)
            return node if inputs == node.inputs else replace(node, inputs=inputs)

        kept = (node for node in graph.nodes if node.origin.by != self.name)
        nodes = [read(before.get(node.outputs[0].name, node)) for node in kept]
        outputs = tuple(renamed.get(v.name, v) for v in graph.outputs)
        return replace(graph, nodes=tuple(topological([*nodes, *added])), outputs=outputs)

    def check(self, before: ComputeGraph, after: ComputeGraph) -> None:
        """Undone, it is the graph before, node for node."""
        if not same_nodes(self.undo(after), before):
            super().check(before, after)


def makers_of(graph: ComputeGraph) -> dict[str, Node]:
    """The node that makes each value, by its name."""
    return {v.name: node for node in graph.nodes for v in node.outputs}


def is_folded(node: Node, makers: Makers, by: str) -> bool:
    """Whether a weight that a pass made is one of its operands."""
    maker = makers.get(node.inputs[1].name)
    return maker is not None and maker.origin.by == by


def behind(values: Iterable[Value], makers: Makers) -> Iterator[Node]:
    """The nodes that lead to values, each once."""
    pending, seen = list(values), set[str]()
    while pending:
        value = pending.pop()
        if value.name not in seen and value.name in makers:
            seen.add(value.name)
            pending += makers[value.name].inputs
            yield makers[value.name]


@dataclass(frozen=True)
class Folding:
    """A normalisation that can be folded into the op before it, and the value that is normalised
    where it is read: the op's result, or a view of it.

    statistics: the nodes of the normalisation's own that lead to what it normalises by.
    """

    filters: Node
    last: Value
    normalize: Node
    statistics: tuple[Node, ...]

    def done(self, graph: ComputeGraph, by: str) -> ComputeGraph | None:
        """The graph where that is done; None if a fused type would lose its kernel."""
        builder = Builder.of(graph)
        start = len(builder.nodes)
        weight, bias = self.emit_weight(builder, by), self.emit_bias(builder, by)
        emitted, made = builder.nodes[start:], self.normalize.outputs[0]
        old = self.filters
        changed = {old.outputs[0].name: replace(old, inputs=(old.inputs[0], weight, bias))}
        changed |= {n.outputs[0].name: replace(n, group="") for n in self.statistics}
        nodes = list[Node]()
        for node in graph.nodes:
            nodes += emitted if node is old else ()
            if node is not self.normalize:
                node = changed.get(node.outputs[0].name, node)
                inputs = tuple(self.last if v == made else v for v in node.inputs)
                nodes.append(node if inputs == node.inputs else replace(node, inputs=inputs))
        outputs = tuple(self.last if v == made else v for v in graph.outputs)
        after = replace(graph, nodes=tuple(topological(nodes)), outputs=outputs)
        group = self.normalize.group
        if group and not old.group:
            wider = with_group(after, old.outputs[0], group)
            if len(members(wider, group)) > 1 and is_kernel(wider, group):
                return wider
        return after if all(is_kernel(after, one) for one in (group, old.group)) else None

    def emit_weight(self, builder: Builder, by: str) -> Value:
        """The weight times the factor of each channel."""
        node, (_, rstd, *more) = self.filters, self.normalize.inputs[1:]
        origin, weight = Origin(node.origin.path, node.origin.type, by), node.inputs[1]
        hint = f"{weight.name}.factor"
        with builder.at(origin, region=node.region):
            factor = builder.emit("multiply", rstd, more[0], hint=hint) if more else rstd
        *shapes, last = factor_shapes(node)
        for shape in shapes:
            with builder.at(origin, region=node.region):
                name = "reshape" if factor.type.size == math.prod(shape) else "broadcast"
                factor = builder.emit(name, factor, shape=shape, hint=hint)
        # Its group tells that which the op was in.
        with builder.at(origin, node.group, node.region):
            factor = builder.emit("reshape", factor, shape=last, hint=hint)
        with builder.at(origin, region=node.region):
            return builder.emit("multiply", weight, factor, hint=f"{weight.name}{FOLDED}")

    def emit_bias(self, builder: Builder, by: str) -> Value:
        """The bias, or zero, normalised as the result was."""
        node, bias = self.normalize, self.filters.inputs[2:]
        origin, mean = Origin(node.origin.path, node.origin.type, by), node.inputs[1]
        with builder.at(origin, region=node.region):
            if bias:
                before = builder.emit("reshape", *bias, shape=mean.type.shape)
            else:
                before = builder.emit("constant", value=0.0, dtype=mean.type.dtype)
            hint = f"{node.outputs[0].name}{FOLDED}"
            made = builder.emit(
                node.op.name, before, *node.inputs[1:], hint=hint, **vars(node.attrs)
            )
        # Its group tells that which the normalisation was in, its name what was normalised.
        with builder.at(origin, node.group, node.region):
            hint = f"{self.last.name}{FOLDED}"
            return builder.emit("reshape", made, shape=(mean.type.size,), hint=hint)


def factor_shapes(node: Node) -> tuple[tuple[int, ...], ...]:
    """The shapes that a factor for each channel takes until it fits the weight."""
    assert isinstance(node.op, Filters)
    result = node.outputs[0].type
    channels = result.shape[node.op.channel_axis(node.attrs, result)]
    return node.op.factor_shapes(node.attrs, node.inputs[1].type, channels)


def folding(graph: ComputeGraph, normalize: Node) -> Folding | None:
    """What can be folded of a normalisation, if it can."""
    makers, views = makers_of(graph), views_of(graph.nodes)
    readers = Counter(v.name for node in graph.nodes for v in node.inputs)
    readers.update(v.name for v in graph.results())
    last = value = normalize.inputs[0]
    while readers[value.name] == 1 and (view := views.get(value.name)) and is_whole(view):
        value = viewed(view)
    found = makers.get(value.name)
    if found is None or readers[value.name] > 1 or not isinstance(found.op, Filters):
        return None
    traced = {found.origin.by, normalize.origin.by} == {TRACE}
    operands = (*normalize.inputs[1:], *found.inputs[1:])
    if not traced or not by_channel(found, normalize) or not is_fixed(graph, operands, makers):
        return None
    if not factor_shapes(found) or is_folded(found, makers, Fold.name):
        return None
    if (statistics := own_statistics(normalize, makers, readers)) is None:
        return None
    return Folding(found, last, normalize, statistics)


def by_channel(filters: Node, normalize: Node) -> bool:
    """Whether a normalisation is by one number for each channel of the op before it."""
    assert isinstance(filters.op, Filters)
    result, x = filters.outputs[0].type, normalize.inputs[0].type
    types = [v.type for v in normalize.inputs[1:]]
    axis = filters.op.channel_axis(filters.attrs, result)
    channels = result.shape[axis]
    if any(one != types[0] for one in types) or types[0].size != channels:
        return False
    if any(one.dtype != result.dtype for one in (types[0], x)):
        return False
    return channels == 1 or has_channels(aligned(types[0].shape, len(x.shape)), x, result, axis)


def has_channels(own: tuple[int, ...], x: TensorType, result: TensorType, axis: int) -> bool:
    """Whether numbers of a shape go along the same elements of a view as an axis of the result."""
    if len(own) != len(x.shape):
        return False
    at = own.index(result.shape[axis])
    after = math.prod(x.shape[at + 1 :]), math.prod(result.shape[axis + 1 :])
    return x.shape[at] == result.shape[axis] and after[0] == after[1]


def is_fixed(graph: ComputeGraph, values: Iterable[Value], makers: Makers) -> bool:
    """Whether values follow from parameters and buffers alone."""
    given, values = fixed_names(graph), tuple(values)
    read = {v.name for v in values}
    read |= {v.name for node in behind(values, makers) for v in node.inputs}
    return all(name in given or name in makers for name in read)


def fixed_names(graph: ComputeGraph) -> set[str]:
    """The names of the parameters and the buffers."""
    states = [s for s in graph.states if s.value.name in (PARAMS, BUFFERS)]
    return {v.name for s in states for v in (s.value, *s.members)}


def own_statistics(
    normalize: Node, makers: Makers, readers: Counter[str]
) -> tuple[Node, ...] | None:
    """The launching nodes of a normalisation's fused type that lead to what it normalises by; None
    if something else has a part in them.
    """
    about, group = normalize.origin, normalize.group
    nodes = tuple(behind(normalize.inputs[1:], makers))
    inside = Counter(v.name for node in (*nodes, normalize) for v in node.inputs)
    for node in nodes:
        own = (node.origin == about) == (node.group == group)
        shared = any(readers[v.name] != inside[v.name] for v in node.outputs)
        if node.launches and group and (not own or (node.group == group and shared)):
            return None
    return tuple(node for node in nodes if node.launches and group and node.group == group)


def members(graph: ComputeGraph, group: str) -> tuple[Node, ...]:
    """The launching nodes of a group."""
    return tuple(node for node in graph.nodes if node.group == group and node.launches)


def is_kernel(graph: ComputeGraph, group: str) -> bool:
    """Whether the nodes of a group can be one kernel."""
    own, work = members(graph, group), Work(graph)
    if not group or len(own) < 2:
        return True
    return not work.refusal(with_views(own, work.views))


def with_group(graph: ComputeGraph, value: Value, group: str) -> ComputeGraph:
    """The graph where the node that makes a value is in a group."""
    nodes = (replace(n, group=group) if value in n.outputs else n for n in graph.nodes)
    return replace(graph, nodes=tuple(nodes))


@dataclass(frozen=True)
class Before:
    """What was there before: an op, and the normalisation of its result."""

    folded: Node
    makers: Makers

    @property
    def bias_view(self) -> Node:
        """The view of the folded bias."""
        return self.makers[self.folded.inputs[2].name]

    @property
    def summand(self) -> Node:
        """The folded bias."""
        return self.makers[self.bias_view.inputs[0].name]

    @property
    def filters(self) -> Node:
        """The op before the normalisation."""
        product, before = self.makers[self.folded.inputs[1].name], self.summand.inputs[0]
        bias = self.makers[before.name].inputs
        inputs = (self.folded.inputs[0], product.inputs[0], *bias)
        group = self.makers[product.inputs[1].name].group
        return replace(self.folded, inputs=inputs, group=group)

    @property
    def normalize(self) -> Node:
        """The normalisation."""
        node, name = self.summand, self.bias_view.outputs[0].name.rpartition(FOLDED)[0]
        last = next(v for v in self.makers[name].outputs if v.name == name)
        inputs = (last, *node.inputs[1:])
        (type,) = node.op.types(node.attrs, [v.type for v in inputs])
        made = Value(node.outputs[0].name.rpartition(FOLDED)[0], type)
        origin = replace(node.origin, by=TRACE)
        return replace(
            node, inputs=inputs, outputs=(made,), origin=origin, group=self.bias_view.group
        )

    def statistics(self) -> Iterator[Node]:
        """The nodes of the normalisation's fused type that lead to what it normalises by."""
        was = self.normalize
        for node in behind(was.inputs[1:], self.makers):
            if node.launches and was.group and node.origin == was.origin:
                yield replace(node, group=was.group)
