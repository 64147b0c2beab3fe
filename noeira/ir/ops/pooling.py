"""Windows over images: their maxima, with what comes back from these, and their sums and means with
the adjoint; both families are closed under vjp.

Images have one, two or three axes beside batch and channels. What lies in memory has its channels
last, x [N, *S, C]; as users count axes it is x [N, C, *S]. *O are the windows along each axis.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from noeira.errors import ShapeError
from noeira.ir.checks import check_number, float_operand, one_float_dtype
from noeira.ir.gradients import Backward
from noeira.ir.graph import Value
from noeira.ir.images import ImageOp
from noeira.ir.samples import BadSample, Sample, drawn, f32, i32
from noeira.ir.types import TensorType, computed
from noeira.ir.windows import (
    Axes,
    MaximumAttrs,
    SpreadAttrs,
    SumAttrs,
    WindowAttrs,
    cells_in_all,
    image_axes,
    images_like,
    results_of,
    spread_axes,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np

# Windows that tile an image, that overlap and are cut off by its edges, that leave cells out; of
# one, two and three axes; that share an axis unevenly. Each with the shape of x, channels last.
SHARED = (
    ((2, 6, 4, 17), {"kernel": (2, 2)}),
    ((2, 7, 9, 33), {"kernel": (3, 3), "stride": (2, 2), "padding": (1, 1)}),
    ((3, 5, 8, 3), {"kernel": (2, 3), "stride": (3, 1), "padding": (0, 1, 1, 0)}),
    ((2, 11, 7), {"kernel": (4,), "stride": (3,), "padding": (2,)}),
    ((1, 3, 4, 5, 6), {"kernel": (2, 1, 3), "stride": (1, 2, 2), "padding": (0, 0, 1)}),
    ((2, 7, 5, 9), {"windows": (3, 5)}),
    ((1, 7, 3, 20), {"windows": (1, 1)}),
    ((1, 3, 2, 4), {"windows": (5, 3)}),
)
LAST = {"channels_last": True}


class Windows(ImageOp):
    """The parent of all: what they have in common are the windows along each axis."""

    kind, images = "window", ("x", "d", "flow")
    takes = frozenset({"tail"})

    def axes(self, attrs: Any, *types: TensorType) -> Axes:
        """The windows of a node. Raises ShapeError if operands and attributes do not fit."""
        return image_axes(self.name, attrs, types[0])

    def flops(self, attrs: Any, *args: Any, **kwargs: Any) -> int:
        axes, x = self.axes(attrs, *args), args[0]
        channels = x.shape[-1] if attrs.channels_last else x.shape[1]
        return x.shape[0] * channels * cells_in_all(axes)

    def run(
        self, attrs: WindowAttrs, rule: Callable[..., np.ndarray], *arrays: np.ndarray
    ) -> np.ndarray:
        """What a rule over axes and arrays with their channels last makes of images."""
        import numpy as np

        types = [TensorType("f32", array.shape) for array in arrays]
        axes = self.axes(attrs, *types)
        if attrs.channels_last:
            return rule(axes, *arrays)
        return np.moveaxis(rule(axes, *(np.moveaxis(one, 1, -1) for one in arrays)), -1, 1)


class MaxPool(Windows):
    """The greatest element of each window; NaN if there is one in it.

    x [N, C, *S] -> [N, C, *O]
    """

    name, operands, Attrs = "max_pool", ("x",), MaximumAttrs

    def infer(self, attrs: MaximumAttrs, x: TensorType) -> tuple[TensorType, ...]:
        float_operand(self.name, x)
        return (results_of(self.name, attrs, x),)

    def reference(self, attrs: MaximumAttrs, x: np.ndarray) -> tuple[np.ndarray, ...]:
        from noeira.ir.windows_numpy import maxima

        return (self.run(attrs, lambda axes, x: maxima(axes, x)[0], x),)

    def vjp(self, attrs: MaximumAttrs, back: Backward) -> dict[str, Value]:
        return {"x": back.emit("max_pool_grad", back.inputs[0], back.cotangent, **vars(attrs))}

    def samples(self) -> tuple[Sample, ...]:
        dilated = {"kernel": (3, 2), "stride": (1, 2), "dilation": (2, 3), "padding": (2, 1)}
        cases = (*SHARED, ((2, 7, 8, 5), dilated))
        return tuple(drawn(x, attrs=attrs | LAST) for x, attrs in cases)

    def bad_samples(self) -> tuple[BadSample, ...]:
        x, two = f32(2, 3, 8, 8), {"kernel": (2, 2)}
        return (
            BadSample((i32(2, 3, 8, 8),), "is not a float", two),
            BadSample((f32(2, 3),), "are no images", two),
            BadSample((x,), "it needs a kernel"),
            BadSample((x,), "kernel is [2], not 2 numbers", {"kernel": (2,)}),
            BadSample((x,), "stride is [0, 1], not 2 numbers", two | {"stride": (0, 1)}),
            BadSample((x,), "padding is [1, 1, 1], not 2 numbers", two | {"padding": (1, 1, 1)}),
            BadSample((x,), "a window spans [9, 1], more than", {"kernel": (9, 1)}),
            BadSample(
                (x,), "window 0 along axis 1 has cells of padding", two | {"padding": (0, 2)}
            ),
            BadSample((x,), "windows is given", two | {"windows": (2, 2)}),
        )


class MaxPoolGrad(Windows):
    """The adjoint of `max_pool` at x: each element of d goes to the cell that has its window's
    maximum, the first of equal ones in the order of memory, or the last NaN, as in PyTorch.

    x [N, C, *S], d [N, C, *O] -> [N, C, *S]
    """

    name, operands, Attrs = "max_pool_grad", ("x", "d"), MaximumAttrs
    images = ("x", "d")
    takes = frozenset()

    def infer(self, attrs: MaximumAttrs, x: TensorType, d: TensorType) -> tuple[TensorType, ...]:
        one_float_dtype(self.name, x, d)
        if d != (made := results_of(self.name, attrs, x)):
            raise ShapeError(f"{self.name}: d is {d}, the windows of {x} are {made}")
        return (x,)

    def reference(
        self, attrs: MaximumAttrs, x: np.ndarray, d: np.ndarray
    ) -> tuple[np.ndarray, ...]:
        from noeira.ir.windows_numpy import routed

        return (self.run(attrs, routed, x, d),)

    def vjp(self, attrs: MaximumAttrs, back: Backward) -> dict[str, Value]:
        # Where x is moved a little, the maxima stay where they are.
        return {"d": back.emit("max_pool_take", back.inputs[0], back.cotangent, **vars(attrs))}

    def samples(self) -> tuple[Sample, ...]:
        pool = MaxPool()
        made = []
        for sample in pool.samples():
            (x,) = (draw.type for draw in sample.operands)
            (y,) = pool.infer(MaximumAttrs(**sample.attrs), x)
            made.append(drawn(x.shape, y.shape, attrs=sample.attrs))
        return tuple(made)

    def bad_samples(self) -> tuple[BadSample, ...]:
        two = {"kernel": (2, 2)}
        x = f32(2, 3, 8, 8)
        return (
            BadSample((x, f32(2, 3, 8, 8)), "the windows of f32[2, 3, 8, 8] are", two),
            BadSample((x, i32(2, 3, 4, 4)), "one dtype", two),
        )


class MaxPoolTake(Windows):
    """The element of `flow` where x has the maximum of each window: the adjoint of `max_pool_grad`
    in d.

    x [N, C, *S], flow [N, C, *S] -> [N, C, *O]
    """

    name, operands, Attrs = "max_pool_take", ("x", "flow"), MaximumAttrs
    images, template = ("x", "flow"), "max_pool"

    def infer(self, attrs: MaximumAttrs, x: TensorType, flow: TensorType) -> tuple[TensorType, ...]:
        one_float_dtype(self.name, x, flow)
        if flow != x:
            raise ShapeError(f"{self.name}: flow is {flow}, it must be as x, {x}")
        return (results_of(self.name, attrs, x),)

    def reference(
        self, attrs: MaximumAttrs, x: np.ndarray, flow: np.ndarray
    ) -> tuple[np.ndarray, ...]:
        from noeira.ir.windows_numpy import taken

        return (self.run(attrs, taken, x, flow),)

    def vjp(self, attrs: MaximumAttrs, back: Backward) -> dict[str, Value]:
        return {"flow": back.emit("max_pool_grad", back.inputs[0], back.cotangent, **vars(attrs))}

    def samples(self) -> tuple[Sample, ...]:
        found = MaxPool().samples()
        every = [(sample.operands[0].type.shape, sample.attrs) for sample in found]
        return tuple(drawn(x, x, attrs=attrs) for x, attrs in every)

    def bad_samples(self) -> tuple[BadSample, ...]:
        operands = f32(2, 3, 8, 8), f32(2, 3, 4, 4)
        return (BadSample(operands, "it must be as x", {"kernel": (2, 2)}),)


class WindowSum(Windows):
    """scale · Σ of the cells of each window; with `mean` divided by how many cells count.

    x [N, C, *S] -> [N, C, *O]
    """

    name, operands, Attrs = "window_sum", ("x",), SumAttrs

    def infer(self, attrs: SumAttrs, x: TensorType) -> tuple[TensorType, ...]:
        float_operand(self.name, x)
        check_number(self.name, attrs.scale, computed(x.dtype))
        return (results_of(self.name, attrs, x),)

    def reference(self, attrs: SumAttrs, x: np.ndarray) -> tuple[np.ndarray, ...]:
        from noeira.ir.windows_numpy import counts, summed

        def rule(axes: Axes, x: np.ndarray) -> np.ndarray:
            share = attrs.scale / counts(axes) if attrs.mean else attrs.scale
            return (summed(axes, x) * share).astype(x.dtype)

        return (self.run(attrs, rule, x),)

    def vjp(self, attrs: SumAttrs, back: Backward) -> dict[str, Value]:
        x = back.inputs[0].type
        size = tuple(axis.size for axis in self.axes(attrs, x))
        return {"x": back.emit("window_spread", back.cotangent, **vars(attrs), size=size)}

    def samples(self) -> tuple[Sample, ...]:
        means = (
            *(SHARED[number] for number in (1, 3, 5)),
            ((2, 6, 5, 4), SHARED[1][1] | {"padding": (1, 1, 2, 2), "counted": (1, 1)}),
            ((1, 8, 8, 16), {"kernel": (2, 2)}),
        )
        plain = (drawn(x, attrs=attrs | LAST) for x, attrs in SHARED)
        others = {"mean": True, "scale": 0.5} | LAST
        return (*plain, *(drawn(x, attrs=attrs | others) for x, attrs in means))

    def bad_samples(self) -> tuple[BadSample, ...]:
        x, two = f32(2, 3, 8, 8), {"kernel": (2, 2)}
        return (
            BadSample((i32(2, 3, 8, 8),), "is not a float", two),
            BadSample((x,), "1e+300 does not fit in f32", two | {"scale": 1e300}),
            BadSample((x,), "counted is [1], not 2 numbers", two | {"counted": (1,)}),
        )


class WindowSpread(Windows):
    """The adjoint of `window_sum`: scale · Σ of the elements of d over the windows of each cell;
    with `mean` each divided by how many cells count.

    d [N, C, *O] -> [N, C, *size]
    """

    name, operands, Attrs = "window_spread", ("d",), SpreadAttrs
    images, template = ("d",), "window_sum"

    def axes(self, attrs: SpreadAttrs, *types: TensorType) -> Axes:
        return spread_axes(self.name, attrs, types[0])

    def infer(self, attrs: SpreadAttrs, d: TensorType) -> tuple[TensorType, ...]:
        float_operand(self.name, d)
        check_number(self.name, attrs.scale, computed(d.dtype))
        size = tuple(axis.size for axis in self.axes(attrs, d))
        return (images_like(self.name, attrs, d, size),)

    def reference(self, attrs: SpreadAttrs, d: np.ndarray) -> tuple[np.ndarray, ...]:
        from noeira.ir.windows_numpy import counts, spread

        def rule(axes: Axes, d: np.ndarray) -> np.ndarray:
            share = attrs.scale / counts(axes) if attrs.mean else attrs.scale
            return spread(axes, (d * share).astype(d.dtype))

        return (self.run(attrs, rule, d),)

    def vjp(self, attrs: SpreadAttrs, back: Backward) -> dict[str, Value]:
        options = {name: value for name, value in vars(attrs).items() if name != "size"}
        return {"d": back.emit("window_sum", back.cotangent, **options)}

    def samples(self) -> tuple[Sample, ...]:
        rule, made = WindowSum(), []
        for sample in rule.samples():
            (x,) = (draw.type for draw in sample.operands)
            (y,) = rule.infer(SumAttrs(**sample.attrs), x)
            made.append(drawn(y.shape, attrs=sample.attrs | {"size": x.shape[1:-1]}))
        return tuple(made)

    def bad_samples(self) -> tuple[BadSample, ...]:
        two = {"kernel": (2, 2), "size": (8, 8)}
        return (
            BadSample((f32(2, 3, 8, 8),), "have [4, 4] windows, f32[2, 3, 8, 8] has", two),
            BadSample((i32(2, 3, 4, 4),), "is not a float", two),
            BadSample((f32(2, 3, 4, 4),), "size is [8], not 2 numbers", two | {"size": (8,)}),
        )
