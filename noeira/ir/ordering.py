"""Reorders between ops that take images in different orders: what ops about images make lies
channels last, and so does what is connected to it by element-wise ops.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from noeira.ir.builder import Builder
from noeira.ir.graph import ROOT, ComputeGraph, Node, Origin, Value
from noeira.ir.images import ImageOp
from noeira.ir.orders import IMAGES, canonical

# What a row-major value is called behind the name of the same in another order.
ROWS = "rows"
# The op whose result has no operand that says how it lies.
BROADCAST = "broadcast"


def in_orders(graph: ComputeGraph, by: str, last: bool = True) -> ComputeGraph:
    """The graph in which every kernel finds its operands in the order that it takes them in.

    last: whether images stay channels last from one such op to the next, else each has a reorder
    before it and behind. by: what the reorders are stamped with. The graph itself if nothing is to
    be done.
    """
    work = Ordering(graph, by, last)
    for node in graph.nodes:
        work.place(node)
    with work.builder.at(Origin(ROOT, "output", by)):
        outputs = tuple(work.wanted(work.current(value), "") for value in graph.outputs)
        updates = tuple(
            replace(u, new=work.wanted(work.current(u.new), u.state.type.order))
            for u in graph.updates
        )
    nodes = tuple(work.builder.nodes)
    if nodes == graph.nodes:
        return graph
    return replace(graph, nodes=nodes, updates=updates, outputs=outputs)


class Ordering:
    """Nodes as they are emitted anew, in order.

    values: what each value of the graph has become. reordered: what it is in other orders.
    """

    def __init__(self, graph: ComputeGraph, by: str, last: bool) -> None:
        self.by, self.last = by, last
        self.builder = Builder.of(graph)
        self.builder.nodes = []
        self.values = dict[str, Value]()
        self.reordered = dict[tuple[str, str], Value]()
        self.images = image_values(graph) if last else set[str]()

    def current(self, value: Value) -> Value:
        """What a value of the graph has become."""
        return self.values.get(value.name, value)

    def wanted(self, value: Value, order: str | None) -> Value:
        """The value in an order: itself, or a reorder of it, which all share that ask for it."""
        if order is None or value.type.order == order:
            return value
        key = value.name, order
        if key not in self.reordered:
            hint = f"{value.name}.{order or ROWS}"
            self.reordered[key] = self.builder.emit("reorder", value, hint=hint, order=order)
        return self.reordered[key]

    def place(self, node: Node) -> None:
        """Emit a node, and the reorders that its kernel needs before it."""
        attrs, read = self.attrs(node), [self.current(v) for v in node.inputs]
        orders = self.asked(node, attrs, read)
        with self.builder.at(Origin(node.origin.path, node.origin.type, self.by)):
            given = tuple(map(self.wanted, read, orders))
            made = node.op.types(attrs, [v.type for v in given])
            outputs = tuple(replace(v, type=t) for v, t in zip(node.outputs, made, strict=True))
            changed = given != node.inputs or outputs != node.outputs or attrs != node.attrs
            self.builder.nodes.append(
                replace(node, attrs=attrs, inputs=given, outputs=outputs) if changed else node
            )
            if not self.last:
                outputs = tuple(map(self.between, outputs))
        self.values |= {was.name: v for was, v in zip(node.outputs, outputs, strict=True)}

    def asked(self, node: Node, attrs: Any, read: Sequence[Value]) -> Sequence[str | None]:
        """The order that each operand must have. An element-wise op of a fused type whose other
        ops take images channels last has them so itself: no reorder may stand in its kernel.
        """
        orders = node.op.kernel_orders(attrs, tuple(v.type for v in read))
        made = node.outputs[0]
        if not (node.group and node.kind.element_wise and made.name in self.images):
            return orders
        shape = made.type.shape
        if any(v.type.order for v in read if v.type.shape == shape):
            return orders
        order = canonical(shape, IMAGES[len(shape)])
        pairs = zip(read, orders, strict=True)
        return [order if v.type.shape == shape else own for v, own in pairs]

    def attrs(self, node: Node) -> Any:
        """The attributes of a node: a `broadcast` is told how its result is to lie."""
        value = node.outputs[0]
        if node.op.name != BROADCAST or value.name not in self.images:
            return node.attrs
        shape = value.type.shape
        return replace(node.attrs, order=canonical(shape, IMAGES[len(shape)]))  # type: ignore[call-arg]

    def between(self, value: Value) -> Value:
        """A result as it lies where images are row major between ops about them."""
        return self.wanted(value, "") if value.type.order in IMAGES.values() else value


def image_values(graph: ComputeGraph) -> set[str]:
    """The values that are to lie channels last: those that ops about images read and make, and what
    element-wise ops over as many elements connect with these.
    """
    near = dict[str, set[str]]()
    found = list[str]()
    for node in graph.nodes:
        if node.kind.element_wise:
            shape = node.outputs[0].type.shape
            same = [v.name for v in (*node.inputs, *node.outputs) if v.type.shape == shape]
            for name in same:
                near.setdefault(name, set()).update(same)
        else:
            found += images_of(node)
    reached, pending = set(found), found
    while pending:
        for name in near.get(pending.pop(), ()):
            if name not in reached:
                reached.add(name)
                pending.append(name)
    return reached


def images_of(node: Node) -> list[str]:
    """The images that an op which is not element-wise reads and makes."""
    if isinstance(node.op, ImageOp):
        if node.attrs.channels_last:  # type: ignore[attr-defined]
            return []
        read = dict(zip(node.operands, node.inputs, strict=True))
        made = dict(zip(node.results, node.outputs, strict=True))
        sides = (read, node.op.images), (made, node.op.results_images)
        return [v.name for side, names in sides for what, v in side.items() if what in names]
    wanted = node.op.kernel_orders(node.attrs, tuple(v.type for v in node.inputs))
    pairs = zip(node.inputs, wanted, strict=True)
    return [v.name for v, order in pairs if order in IMAGES.values()]


def row_major(graph: ComputeGraph, by: str) -> ComputeGraph:
    """The graph before `in_orders`: without its reorders, every image row major."""
    values = dict[str, Value]()
    nodes = list[Node]()
    for node in graph.nodes:
        read = tuple(values.get(v.name, v) for v in node.inputs)
        if node.op.name == "reorder" and node.origin.by == by:
            values[node.outputs[0].name] = read[0]
            continue
        attrs = node.attrs
        if node.op.name == BROADCAST and attrs.order in IMAGES.values():  # type: ignore[attr-defined]
            attrs = replace(attrs, order="")  # type: ignore[call-arg]
        made = node.op.types(attrs, [v.type for v in read])
        outputs = tuple(replace(v, type=t) for v, t in zip(node.outputs, made, strict=True))
        values |= {v.name: v for v in outputs}
        nodes.append(replace(node, attrs=attrs, inputs=read, outputs=outputs))

    def was(value: Value) -> Value:
        return values.get(value.name, value)

    return replace(
        graph,
        nodes=tuple(nodes),
        updates=tuple(replace(u, new=was(u.new)) for u in graph.updates),
        outputs=tuple(map(was, graph.outputs)),
    )
