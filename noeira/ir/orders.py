"""The orders in which the axes of images and of weights lie in memory.

A shape is always that which users count, [N, C, H, W] of images and [F, C, H, W] of weights. A type
without an order lies row major as it is; one with an order has its axes in memory as the table
says: `f32[32, 64, 16, 16] nhwc` lies as [32, 16, 16, 64] would. Where axes of length 1 make that
the same, a type has no order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from noeira.errors import VerifyError
from noeira.ir.broadcasting import aligned
from noeira.ir.layouts import Member
from noeira.ir.types import TensorType

if TYPE_CHECKING:
    import numpy as np

    from noeira.ir.graph import Node
    from noeira.ir.value import Value

T = TypeVar("T")
Shape = tuple[int, ...]

# By name, the axes of a shape in the order in which they lie in memory.
ORDERS: dict[str, Shape] = {
    "nlc": (0, 2, 1),
    "nhwc": (0, 2, 3, 1),
    "ndhwc": (0, 2, 3, 4, 1),
    "lio": (2, 1, 0),
    "hwio": (2, 3, 1, 0),
    "dhwio": (2, 3, 4, 1, 0),
}
# By the number of axes: those of images, channels last, and those of weights.
IMAGES = {3: "nlc", 4: "nhwc", 5: "ndhwc"}
WEIGHTS = {3: "lio", 4: "hwio", 5: "dhwio"}


def arranged(items: Sequence[T], order: str) -> tuple[T, ...]:
    """What belongs to the axes of a shape, in the order of memory."""
    return tuple(items[axis] for axis in ORDERS[order]) if order else tuple(items)


def changes_nothing(shape: Shape, order: str) -> bool:
    """Whether a shape lies the same without the order: those of its axes that are longer than 1
    stand as before.
    """
    axes = [axis for axis in ORDERS[order] if shape[axis] != 1]
    return axes == sorted(axes)


def canonical(shape: Shape, order: str) -> str:
    """The order, or "" where it changes nothing."""
    return "" if order and changes_nothing(shape, order) else order


def ordered(type: TensorType, order: str) -> TensorType:
    """The type in an order; "" is row major. Raises VerifyError for an order of other axes."""
    if order and (order not in ORDERS or len(ORDERS[order]) != len(type.shape)):
        raise VerifyError(f"{type} has not the axes of the order {order!r}")
    return replace(type, order=canonical(type.shape, order))


def plain(type: TensorType) -> TensorType:
    """The type of the same shape, row major."""
    return replace(type, order="") if type.order else type


def stored(type: TensorType, order: str | None = None) -> TensorType:
    """The row-major type that lies in memory as a type does; order: instead of its own, where that
    is left out since it changes nothing.
    """
    order = type.order if order is None else order
    return replace(type, shape=arranged(type.shape, order), order="") if order else type


def axes_back(order: str) -> Shape:
    """Where each axis of the shape stands among those in memory."""
    return tuple(ORDERS[order].index(axis) for axis in range(len(ORDERS[order])))


def channel_moves(count: int) -> tuple[Shape, ...]:
    """The orders of so many axes that put the channels of a batch of images last, and first."""
    order = IMAGES.get(count)
    return (ORDERS[order], axes_back(order)) if order else ()


def member_of(flat: np.ndarray, member: Member) -> np.ndarray:
    """A member of a layout as a view of flat memory, of the shape that users count."""
    lies = flat[member.offset : member.end].reshape(arranged(member.shape, member.order))
    return lies.transpose(axes_back(member.order)) if member.order else lies


def flattened(array: np.ndarray, order: str) -> np.ndarray:
    """The elements of an array as they lie in memory in an order."""
    return (array.transpose(ORDERS[order]) if order else array).reshape(-1)


def is_ordered(node: Node) -> bool:
    """Whether anything that a node reads or makes, or its body, has an order."""
    return any(v.type.order for part in node.parts for v in (*part.inputs, *part.outputs))


def laid(node: Node) -> Node:
    """The node as kernels see it: values as they lie in memory, all row major, and attributes that
    fit these.
    """
    if not needs_laying(node):
        return node
    parts = tuple(map(laid_part, node.parts))
    if not node.body:
        return parts[0]
    read = tuple(lying(v) for v in node.inputs)
    return replace(node, inputs=read, outputs=tuple(map(lying, node.outputs)), body=parts)


def needs_laying(node: Node) -> bool:
    """Whether it looks otherwise to kernels: it has values in an order, or an op about images."""
    return any(part.op.lies_otherwise(part.attrs) for part in node.parts) or is_ordered(node)


def lying(value: Value) -> Value:
    """The value as it lies in memory."""
    return replace(value, type=stored(value.type)) if value.type.order else value


def laid_part(part: Node) -> Node:
    """The same of a node that is not fused."""
    types = tuple(v.type for v in part.inputs)
    made = tuple(v.type for v in part.outputs)
    attrs, operands, results = part.op.laid(part.attrs, types, made)
    return replace(
        part,
        op=part.op.laid_as,
        attrs=attrs,
        inputs=retyped(part.inputs, operands),
        outputs=retyped(part.outputs, results),
        order=made[0].order,
    )


def retyped(values: Sequence[Value], types: Sequence[TensorType]) -> tuple[Value, ...]:
    """Values under the same names, of other types."""
    return tuple(replace(v, type=type) for v, type in zip(values, types, strict=True))


def check_orders(part: Node) -> None:
    """Raises VerifyError if the kernel of a node that is not fused wants an operand in another
    order.
    """
    wanted = part.op.kernel_orders(part.attrs, tuple(v.type for v in part.inputs))
    for value, order in zip(part.inputs, wanted, strict=True):
        if order is not None and order != value.type.order:
            raise VerifyError(
                f"{value} is {value.type}, and the kernel of {part.op.name} takes it "
                f"{order or 'row major'}: the pass `order` puts a reorder between them"
            )


def order_together(operands: Sequence[TensorType], result: TensorType) -> str:
    """The order that an element-wise result has by that of its operands: that of the first one of
    as many axes that has one; "" if another one, of fewer axes, could not be read along it.
    """
    rank = len(result.shape)
    found = next((t.order for t in operands if t.order and len(t.shape) == rank), "")
    if found and all(runs_along(t.shape, found) for t in operands):
        return canonical(result.shape, found)
    return ""


def runs_along(shape: Shape, order: str) -> bool:
    """Whether an operand that is repeated to what lies in an order can be read along it: it has as
    many axes, so that it can lie so too, or lies the same with axes of length 1 before its own.
    """
    rank = len(ORDERS[order])
    return len(shape) == rank or changes_nothing(aligned(shape, rank), order)


def order_in(shape: Shape, result: TensorType) -> str:
    """The order that an operand of an element-wise op must have, to be repeated to a result."""
    if result.order and len(shape) == len(result.shape):
        return canonical(shape, result.order)
    return ""


def lying_along(type: TensorType, result: TensorType) -> TensorType:
    """The row-major type of an operand that is repeated to a result, as it lies in memory."""
    if not result.order or not type.shape:
        return type
    shape = aligned(type.shape, len(result.shape))
    return replace(type, shape=arranged(shape, result.order), order="")
