"""Reorders between ops that take images in different orders: what ops about images make lies
channels last, and so does what is connected to it by element-wise ops.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import replace
from typing import Any

from noeira.ir.builder import Builder
from noeira.ir.graph import ROOT, ComputeGraph, Node, Origin, Value
from noeira.ir.images import ImageOp
from noeira.ir.orders import IMAGES, canonical
from noeira.ir.types import TensorType

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
        updates = tuple(replace(u, new=work.wanted(work.current(u.new), "")) for u in graph.updates)
    nodes = tuple(work.builder.nodes)
    if nodes == graph.nodes:
        return graph
    return replace(graph, nodes=nodes, updates=updates, outputs=outputs)


class Ordering:
    """Nodes as they are emitted anew, in order.

    values: what each value of the graph has become. reordered: what it is in other orders. images:
    the values that are to lie channels last. rows: the groups in which all is row major.
    """

    def __init__(self, graph: ComputeGraph, by: str, last: bool) -> None:
        self.by, self.last = by, last
        self.builder = Builder.of(graph)
        self.builder.nodes = []
        self.values = dict[str, Value]()
        self.reordered = dict[tuple[str, str], Value]()
        self.images, self.rows = set[str](), set[str]()
        if last:
            self.rows = row_major_groups(graph, image_values(graph))
            self.images = image_values(graph, self.rows)

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
        """The order that each operand must have. An element-wise op of a fused type takes images as
        the type's other ops do: no reorder may stand in its kernel.
        """
        orders = node.op.kernel_orders(attrs, tuple(v.type for v in read))
        made = node.outputs[0]
        if not (node.group and node.kind.element_wise):
            return orders
        shape = made.type.shape
        if node.group in self.rows:
            return ["" if v.type.shape == shape else o for v, o in zip(read, orders, strict=True)]
        if made.name not in self.images:
            return orders
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


def image_values(graph: ComputeGraph, rows: Set[str] = frozenset()) -> set[str]:
    """The values that are to lie channels last: those that ops about images read and make, and what
    element-wise ops over as many elements, but for those of the groups `rows`, connect with these.
    """
    near = dict[str, set[str]]()
    found = list[str]()
    for node in graph.nodes:
        if node.group in rows:
            continue
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


def row_major_groups(graph: ComputeGraph, images: Set[str]) -> set[str]:
    """The groups without an op about images that get none from a node, or have an op that takes
    one row major.
    """
    about, against, given = set[str](), set[str](), set[str]()
    home = dict[str, str]()

    def lying(value: Value) -> TensorType:
        order = IMAGES[len(value.type.shape)] if value.name in images else ""
        return replace(value.type, order=canonical(value.type.shape, order))

    for node in graph.nodes:
        read = [v for v in node.inputs if v.name in images]
        home |= dict.fromkeys((v.name for v in node.outputs), node.group)
        if node.kind.element_wise:
            makers = {home.get(v.name, node.group) for v in read} - {node.group}
            if makers & {"", *about, *(given - against)}:
                given.add(node.group)
        elif images_of(node):
            about.add(node.group)
        else:
            orders = node.op.kernel_orders(node.attrs, tuple(map(lying, node.inputs)))
            pairs = zip(node.inputs, orders, strict=True)
            if any(order == "" and v in read for v, order in pairs):
                against.add(node.group)
    return {node.group for node in graph.nodes} - about - (given - against) - {""}


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
