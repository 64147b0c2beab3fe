"""The orders of axes in memory: `reorder`, which moves elements, and the views `stored` and
`restored`, which say of the same memory what its axes are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from noeira.errors import ShapeError
from noeira.ir import graph
from noeira.ir.gradients import Backward
from noeira.ir.graph import Value
from noeira.ir.op import Limits, Op, op
from noeira.ir.orders import ORDERS, arranged, axes_back, canonical, stored
from noeira.ir.samples import BadSample, Sample, drawn, f32
from noeira.ir.storage import Inside
from noeira.ir.types import TensorType, Types

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class OrderAttrs(graph.Attrs):
    """order: of axes, such as `nhwc`; "" is row major."""

    order: str = ""


def check_order(name: str, attrs: OrderAttrs, x: TensorType) -> None:
    """Raises ShapeError for an order of other axes than there are."""
    if attrs.order and len(ORDERS.get(attrs.order, ())) != len(x.shape):
        raise ShapeError(f"{name}: {x} has not the axes of the order {attrs.order!r}")


class Moved(Op):
    """The parent of the three: whole numbers stay below what they stay below."""

    operands, Attrs = ("x",), OrderAttrs

    def result_limits(self, attrs: Any, operands: Types, limits: Limits) -> Limits:
        return limits


class Stored(Moved):
    """x as it lies in memory: an x that lies in `order`, seen row major; [N, C, H, W] nhwc ->
    [N, H, W, C].
    """

    name = "stored"

    def infer(self, attrs: OrderAttrs, x: TensorType) -> tuple[TensorType, ...]:
        check_order(self.name, attrs, x)
        return (TensorType(x.dtype, arranged(x.shape, attrs.order)),)

    def reference(self, attrs: OrderAttrs, x: np.ndarray) -> tuple[np.ndarray, ...]:
        return (x.transpose(ORDERS[attrs.order]) if attrs.order else x,)

    def storage(self, attrs: OrderAttrs, operands: Types) -> Inside:
        return Inside()

    def kernel_orders(self, attrs: OrderAttrs, operands: Types) -> tuple[str | None, ...]:
        return (canonical(operands[0].shape, attrs.order),)

    def vjp(self, attrs: OrderAttrs, back: Backward) -> dict[str, Value]:
        return {"x": back.emit("restored", back.cotangent, order=attrs.order)}

    def samples(self) -> tuple[Sample, ...]:
        return (drawn((2, 3, 4, 5)),)

    def bad_samples(self) -> tuple[BadSample, ...]:
        return (BadSample((f32(3, 4),), "has not the axes of the order 'nhwc'", {"order": "nhwc"}),)


class Restored(Moved):
    """The inverse of `stored`: x, seen as what lies so in `order`; [N, H, W, C] -> [N, C, H, W]
    nhwc.
    """

    name = "restored"

    def infer(self, attrs: OrderAttrs, x: TensorType) -> tuple[TensorType, ...]:
        check_order(self.name, attrs, x)
        shape = x.shape
        if attrs.order:
            shape = tuple(x.shape[axis] for axis in axes_back(attrs.order))
        return (TensorType(x.dtype, shape),)

    def reference(self, attrs: OrderAttrs, x: np.ndarray) -> tuple[np.ndarray, ...]:
        return (x.transpose(axes_back(attrs.order)) if attrs.order else x,)

    def orders(self, attrs: OrderAttrs, operands: Types, results: Types) -> tuple[str, ...]:
        return (attrs.order,)

    def storage(self, attrs: OrderAttrs, operands: Types) -> Inside:
        return Inside()

    def vjp(self, attrs: OrderAttrs, back: Backward) -> dict[str, Value]:
        return {"x": back.emit("stored", back.cotangent, order=attrs.order)}

    def samples(self) -> tuple[Sample, ...]:
        return (drawn((2, 3, 4, 5)),)

    def bad_samples(self) -> tuple[BadSample, ...]:
        return (BadSample((f32(3, 4),), "has not the axes of the order 'hwio'", {"order": "hwio"}),)


class Reorder(Moved):
    """x, its axes in another order in memory: the same [N, C, H, W], so that kernels find the
    elements where they want them.
    """

    name, moves = "reorder", True

    @property
    def laid_as(self) -> Op:
        return op("transpose")

    def infer(self, attrs: OrderAttrs, x: TensorType) -> tuple[TensorType, ...]:
        check_order(self.name, attrs, x)
        return (x,)

    def reference(self, attrs: OrderAttrs, x: np.ndarray) -> tuple[np.ndarray, ...]:
        return (x,)

    def orders(self, attrs: OrderAttrs, operands: Types, results: Types) -> tuple[str, ...]:
        return (attrs.order,)

    def kernel_orders(self, attrs: OrderAttrs, operands: Types) -> tuple[str | None, ...]:
        return (None,)

    def lies_otherwise(self, attrs: OrderAttrs) -> bool:
        return True

    def laid(self, attrs: Any, operands: Types, results: Types) -> tuple[Any, Types, Types]:
        from noeira.ir.ops.transposition import TransposeAttrs

        (x,), (y,) = operands, results
        every = range(len(x.shape))
        before = ORDERS[x.order] if x.order else tuple(every)
        after = ORDERS[y.order] if y.order else tuple(every)
        axes = tuple(before.index(axis) for axis in after)
        return TransposeAttrs(axes), (stored(x),), (stored(y),)

    def vjp(self, attrs: OrderAttrs, back: Backward) -> dict[str, Value]:
        return {"x": back.cotangent}

    def samples(self) -> tuple[Sample, ...]:
        images = drawn((2, 3, 4, 5), attrs={"order": "nhwc"})
        return (images, drawn((3, 17, 33), attrs={"order": "nlc"}))

    def bad_samples(self) -> tuple[BadSample, ...]:
        return (BadSample((f32(3, 4),), "has not the axes of the order 'nhwc'", {"order": "nhwc"}),)
