"""Clipping of gradients: by the norm of all, by value, and by the norm of each parameter."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from noeira.errors import ShapeError, VerifyError
from noeira.ir.bounded import NOT_NEGATIVE, Bounded
from noeira.ir.checks import check_number, float_operand
from noeira.ir.cost import Cost
from noeira.ir.layouts import Range
from noeira.ir.op import Op
from noeira.ir.ops.elementwise import Elementwise
from noeira.ir.ops.flat_update import FEW_RANGES, HALVES, MANY_RANGES, QUARTERS
from noeira.ir.ranges import check_ranges, covered
from noeira.ir.samples import BadSample, Draw, Sample, f32, i32
from noeira.ir.scalar import Expr, call, select, var
from noeira.ir.types import DTYPES, TensorType, computed

if TYPE_CHECKING:
    import numpy as np

# For samples: tables of very unequal ranges, some of several pieces.
UNEQUAL_RANGES = ((0, 13), (16, 9001), (9001, 9002), (9005, 20000))


@dataclass(frozen=True)
class ClipNormOptions(Bounded):
    """max_norm: the greatest norm; 0 for none, the norm alone is wanted. least: what a norm counts
    at least.
    """

    max_norm: float
    least: ClassVar[float] = 1e-6
    bounds: ClassVar[Mapping[str, tuple[float, float]]] = {"max_norm": NOT_NEGATIVE}


@dataclass(frozen=True)
class ClipNormAttrs(ClipNormOptions):
    """The options."""


class ClipNorm(Op):
    """norm = √Σ g² over all gradients; scale = min(1, max_norm / max(norm, 1e-6)), 1 if max_norm is
    0 (Pascanu et al. 2013). Both are NaN where a gradient is.

    The order of the sum is fixed by the number of elements. grads [N] -> norm [], scale [], of
    16-bit floats in f32
    """

    name, operands, results, Attrs = "clip_norm", ("grads",), ("norm", "scale"), ClipNormAttrs

    def infer(self, attrs: ClipNormAttrs, grads: TensorType) -> tuple[TensorType, ...]:
        float_operand(self.name, grads)
        check_number("clip_norm: max_norm", attrs.max_norm, computed(grads.dtype))
        return (TensorType(computed(grads.dtype), ()),) * 2

    def reference(self, attrs: ClipNormAttrs, grads: np.ndarray) -> tuple[np.ndarray, ...]:
        import numpy as np

        norm = np.sqrt(np.square(grads).sum())
        if not attrs.max_norm:
            return norm, np.ones_like(norm)
        scale = np.minimum(1, attrs.max_norm / np.maximum(norm, attrs.least))
        return norm, scale.astype(norm.dtype)

    def flops(self, attrs: ClipNormAttrs, grads: TensorType) -> int:
        return 2 * grads.size

    def samples(self) -> tuple[Sample, ...]:
        cases = [((size,), norm) for size in (1, 7, 257, 20003) for norm in (0.0, 5.0)]
        return tuple(
            Sample((Draw(f32(*shape)),), {"max_norm": norm}, ())
            for shape, norm in (*cases, ((4, 33), 1e3))
        )

    def bad_samples(self) -> tuple[BadSample, ...]:
        return (
            BadSample((i32(3),), "is not a float", {"max_norm": 1.0}),
            BadSample((f32(3),), "max_norm: 1e+300 does not fit in f32", {"max_norm": 1e300}),
        )


@dataclass(frozen=True)
class ClipValueOptions(Bounded):
    """limit: the greatest absolute value."""

    limit: float
    above_zero: ClassVar[tuple[str, ...]] = ("limit",)


@dataclass(frozen=True)
class ClipValueAttrs(ClipValueOptions):
    """The options."""


class ClipValue(Elementwise):
    """clipped = min(max(grads, -limit), limit), as `clip_grad_value_` of PyTorch; its slope is 1
    inside, the limits included
    """

    name, Attrs = "clip_value", ClipValueAttrs
    operands, results = ("grads",), ("clipped",)

    def expression(self, attrs: ClipValueAttrs) -> Expr:
        return call("min", call("max", var("grads"), -attrs.limit), attrs.limit)

    def slope(self, attrs: ClipValueAttrs, index: int) -> Expr:
        return select(call("le", call("abs", var("grads")), attrs.limit), 1, 0)

    def bad_samples(self) -> tuple[BadSample, ...]:
        wide = BadSample((f32(3),), "clip_value: -1e+300 does not fit in f32", {"limit": 1e300})
        return (*super().bad_samples(), wide)


@dataclass(frozen=True)
class ClipAdaptiveOptions(Bounded):
    """clip: the greatest norm of a parameter's gradient, in norms of the parameter; least: what
    such a norm counts at least, so that parameters that begin as zeros are trained.
    """

    clip: float = 0.3
    least: float = 1e-3
    bounds: ClassVar[Mapping[str, tuple[float, float]]] = {"least": NOT_NEGATIVE}
    above_zero: ClassVar[tuple[str, ...]] = ("clip",)


@dataclass(frozen=True)
class AdaptiveClipAttrs(ClipAdaptiveOptions):
    """ranges: the elements of each parameter; without any, all are one."""

    ranges: tuple[Range, ...] = ()


class AdaptiveClip(Op):
    """scale[r] = min(1, clip · max(least, ‖params[r]‖) / ‖grads[r]‖) for each range r, 1 if
    ‖grads[r]‖ is 0: adaptive clipping (Brock et al. 2021), of a parameter as a whole as in
    DreamerV3.

    The order of each sum is fixed by the ranges. params [N], grads [N] -> scale [R], of 16-bit
    floats in f32
    """

    name, Attrs = "adaptive_clip", AdaptiveClipAttrs
    operands, results = ("params", "grads"), ("scale",)

    def infer(
        self, attrs: AdaptiveClipAttrs, params: TensorType, grads: TensorType
    ) -> tuple[TensorType, ...]:
        float_operand(self.name, params)
        if grads != params or len(params.shape) != 1:
            raise ShapeError(f"adaptive_clip: {params}, {grads}: must be flat and of one type")
        for name in ("clip", "least"):
            check_number(f"adaptive_clip: {name}", getattr(attrs, name), computed(params.dtype))
        check_ranges(self.name, attrs.ranges, params.size)
        for span in attrs.ranges:
            if span.numbers:
                name = span.numbers[0][0]
                raise VerifyError(f"adaptive_clip: the range {span}: nothing may vary, not {name}")
        return (TensorType(computed(params.dtype), (len(self.spans(attrs, params)),)),)

    def spans(self, attrs: AdaptiveClipAttrs, params: TensorType) -> tuple[Range, ...]:
        """The elements of each parameter."""
        return attrs.ranges or (Range(0, params.size),)

    def reference(
        self, attrs: AdaptiveClipAttrs, params: np.ndarray, grads: np.ndarray
    ) -> tuple[np.ndarray, ...]:
        import numpy as np

        spans = attrs.ranges or (Range(0, params.size),)
        norms = [
            np.array([np.sqrt(np.square(x[span.start : span.stop]).sum()) for span in spans])
            for x in (params, grads)
        ]
        most = attrs.clip * np.maximum(attrs.least, norms[0])
        scale = np.ones_like(most)
        # Not `norm > most`, so that NaN is not hidden.
        np.divide(most, norms[1], out=scale, where=~(norms[1] <= most))
        return (scale.astype(params.dtype),)

    def flops(self, attrs: AdaptiveClipAttrs, params: TensorType, grads: TensorType) -> int:
        return 4 * covered(attrs.ranges, params.size)

    def cost(self, attrs: AdaptiveClipAttrs, params: TensorType, grads: TensorType) -> Cost:
        """As of every op, but only the elements in ranges are read."""
        read = 2 * covered(attrs.ranges, params.size) * DTYPES[params.dtype].bytes
        return replace(super().cost(attrs, params, grads), bytes_read=read)

    def samples(self) -> tuple[Sample, ...]:
        tables = (HALVES, QUARTERS, FEW_RANGES, MANY_RANGES)
        cases = [(1, (), 0.3), (257, (), 0.3), (20000, UNEQUAL_RANGES, 0.5)]
        cases += [(257, spans, 0.9) for spans in tables]
        return tuple(
            Sample(
                (Draw(f32(size)), Draw(f32(size))),
                {"clip": clip, "ranges": tuple(Range(*span) for span in spans)},
                (),
            )
            for size, spans, clip in cases
        )

    def bad_samples(self) -> tuple[BadSample, ...]:
        types = (f32(8), f32(8))
        return (
            BadSample((f32(8), f32(9)), "must be flat and of one type"),
            BadSample((i32(8), i32(8)), "is not a float"),
            BadSample(types, "the range 4:9 must be", {"ranges": (Range(4, 9),)}),
            BadSample(types, "clip: 1e+300 does not fit in f32", {"clip": 1e300}),
        )
