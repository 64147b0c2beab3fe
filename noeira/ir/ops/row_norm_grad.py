"""The gradients of norms of rows: that of the rows and the sums over rows, by one op, which is
differentiable itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from noeira.errors import ShapeError
from noeira.ir import graph
from noeira.ir.checks import check_rows, expect
from noeira.ir.gradients import Backward, reduce_to
from noeira.ir.graph import Value
from noeira.ir.op import Op
from noeira.ir.samples import BadSample, Draw, Sample, f32
from noeira.ir.types import TensorType, computed

if TYPE_CHECKING:
    import numpy as np

# Rows and columns of samples: of one element, around vectors, more rows than a chunk has.
SHAPES = ((5, 1), (70, 7), (3, 3, 16), (9, 65), (2, 2049))


@dataclass(frozen=True)
class NormGradAttrs(graph.Attrs):
    """weighted: whether there is a gain. d_gain, d_shift: which sums over rows are wanted."""

    weighted: bool = False
    d_gain: bool = False
    d_shift: bool = False

    @property
    def sums(self) -> tuple[str, ...]:
        """The results that are sums over rows."""
        wanted = (("d_gain", self.d_gain), ("d_shift", self.d_shift))
        return tuple(name for name, given in wanted if given)


class RowNormGrad(Op):
    """The parent of the gradients of norms along the last axis.

    With g = d·gain and n the normalised row: d_x = rstd·(g - Σ g/N - n·Σ g·n/N), without the first
    sum where no mean is taken away; d_gain = Σ d·n and d_shift = Σ d over all rows. Sums over rows
    are those of chunks of rows, in order.
    """

    kind, Attrs = "row", NormGradAttrs
    operands = ("d", "x", "mean", "rstd", "gain")
    results = ("", "d_gain", "d_shift")
    looks_twice = streams = True
    takes = frozenset({"head", "tail"})
    centred: ClassVar[bool]

    def given_operands(self, attrs: NormGradAttrs) -> tuple[str, ...]:
        mean = ("mean",) if self.centred else ()
        return ("d", "x", *mean, "rstd", *(("gain",) if attrs.weighted else ()))

    def given_results(self, attrs: NormGradAttrs) -> tuple[str, ...]:
        return ("", *attrs.sums)

    def stem(self, attrs: NormGradAttrs, *types: TensorType | None) -> str:
        return "row_norm_sums" if attrs.sums else "row_norm_grad"

    def infer(
        self,
        attrs: NormGradAttrs,
        d: TensorType,
        x: TensorType,
        mean: TensorType | None,
        rstd: TensorType,
        gain: TensorType | None,
    ) -> tuple[TensorType, ...]:
        rows = TensorType(computed(x.dtype), check_rows(self.name, x))
        row = TensorType(x.dtype, x.shape[-1:])
        if d != x:
            raise ShapeError(f"{self.name}: the cotangent {d} must be {x}")
        for name, got, want in (("mean", mean, rows), ("rstd", rstd, rows), ("gain", gain, row)):
            expect(self.name, name, got, want)
        return (x, *(row for _ in attrs.sums))

    def reference(
        self,
        attrs: NormGradAttrs,
        d: np.ndarray,
        x: np.ndarray,
        mean: np.ndarray | None,
        rstd: np.ndarray,
        gain: np.ndarray | None,
    ) -> tuple[np.ndarray, ...]:
        g = d if gain is None else d * gain
        n = (x if mean is None else x - mean[..., None]) * rstd[..., None]
        apart = g if mean is None else g - g.mean(-1, keepdims=True)
        d_x = rstd[..., None] * (apart - n * (g * n).mean(-1, keepdims=True))
        axes = tuple(range(x.ndim - 1))
        sums = {"d_gain": (d * n).sum(axes), "d_shift": d.sum(axes)}
        return (d_x, *(sums[name] for name in attrs.sums))

    def vjp(self, attrs: NormGradAttrs, back: Backward) -> dict[str, Value]:
        """With cotangents u of d_x, v of d_gain and w of d_shift, a = Σ g·n/N and b = Σ u·n/N, what
        flows back to n is v·d - rstd·(u·a + g·b).
        """
        values = {
            name: widened(back, value)
            for name, value in zip(self.operands, back.inputs, strict=True)
            if value is not None
        }
        flows = [None if flow is None else widened(back, flow) for flow in back.cotangents]
        found = self.second(back, values, flows)
        return {
            name: narrowed(back, value, back.inputs[self.operands.index(name)])
            for name, value in found.items()
        }

    def second(
        self, back: Backward, values: dict[str, Value], flows: list[Value | None]
    ) -> dict[str, Value]:
        """The cotangents of the operands, all in the dtype that is computed in."""
        d, x, rstd, gain = (values.get(name) for name in ("d", "x", "rstd", "gain"))
        numbers = tuple(values[name] for name in ("mean", "rstd") if name in values)
        assert d is not None and x is not None and rstd is not None
        u, v, w = (*flows, None)[:3]
        n, rows = normalized(back, x, numbers), each_row(back, rstd)
        of_n, of_rstd, of_d = list[Value](), list[Value](), list[Value]()
        found = dict[str, Value]()
        if u is not None:
            straight = back.emit(self.name, u, x, *numbers)
            of_d.append(straight if gain is None else back.emit("multiply", straight, gain))
            if gain is not None and back.wants("gain"):
                product = back.emit("multiply", d, straight)
                found["gain"] = reduce_to(back, product, gain.type.shape)
            g = d if gain is None else back.emit("multiply", d, gain)
            bent = back.emit("multiply", u, row_mean(back, g, n))
            bent = back.emit("add", bent, back.emit("multiply", g, row_mean(back, u, n)))
            of_n.append(back.emit("scale", back.emit("multiply", bent, rows), factor=-1.0))
            of_rstd.append(back.emit("multiply", u, widened(back, back.outputs[0])))
        if v is not None:
            of_d.append(back.emit("multiply", n, v))
            of_n.append(back.emit("multiply", d, v))
        if w is not None:
            of_d.append(back.emit("broadcast", w, shape=x.type.shape))
        found["d"] = added(back, of_d)
        if of_n and any(back.wants(name) for name in ("x", "mean", "rstd")):
            flow = added(back, of_n)
            of_rstd.append(back.emit("multiply", flow, n))
            found["x"] = back.emit("multiply", flow, rows)
            if self.centred:
                total = back.emit("sum", found["x"], axes=(-1,), scale=-1.0)
                found["mean"] = total
            total = back.emit("sum", added(back, of_rstd), axes=(-1,))
            found["rstd"] = back.emit("divide", total, rstd)
        return found

    def flops(self, attrs: NormGradAttrs, d: TensorType, *rest: TensorType | None) -> int:
        return (10 + 2 * len(attrs.sums)) * d.size

    def samples(self) -> tuple[Sample, ...]:
        every = self.results[1:]
        found = [self.sample(shape, every, True) for shape in SHAPES]
        found += [self.sample((33, 17), (), weighted) for weighted in (True, False)]
        return (*found, self.sample((9, 5), every[:1], False), self.sample((7,), every, True))

    def sample(self, shape: tuple[int, ...], sums: tuple[str, ...], weighted: bool) -> Sample:
        """Operands of a shape."""
        whole, rows = Draw(f32(*shape)), Draw(f32(*shape[:-1]))
        mean = (rows,) if self.centred else ()
        rstd, gain = Draw(rows.type, "positive"), (Draw(f32(shape[-1])),) if weighted else ()
        attrs = {"weighted": weighted, **dict.fromkeys(sums, True)}
        return Sample((whole, whole, *mean, rstd, *gain), attrs)

    def bad_samples(self) -> tuple[BadSample, ...]:
        x, rows = f32(4, 5), f32(4)
        mean = (rows,) if self.centred else ()
        return (
            BadSample((f32(4, 6), x, *mean, rows), "must be"),
            BadSample((x, x, *mean, f32(5)), "rstd is f32[5], it must be f32[4]"),
        )


class LayerNormGrad(RowNormGrad):
    """The gradient of `layer_norm`.

    d [..., N], x [..., N], mean [...], rstd [...], gain [N] (optional) -> d_x [..., N], d_gain [N]
    and d_shift [N], where they are wanted
    """

    name, centred = "layer_norm_grad", True


class RMSNormGrad(RowNormGrad):
    """The gradient of `rms_norm`.

    d [..., N], x [..., N], rstd [...], gain [N] (optional) -> d_x [..., N] and d_gain [N], where it
    is wanted
    """

    name, centred, results = "rms_norm_grad", False, ("", "d_gain")


def widened(back: Backward, value: Value) -> Value:
    """A value in the dtype that it is computed in."""
    wide = computed(value.type.dtype)
    return value if wide == value.type.dtype else back.emit("cast", value, dtype=wide)


def narrowed(back: Backward, value: Value, like: Value) -> Value:
    """A value in the dtype of another one."""
    dtype = like.type.dtype
    return value if dtype == value.type.dtype else back.emit("cast", value, dtype=dtype)


def each_row(back: Backward, value: Value) -> Value:
    """Numbers of rows, as a column beside them."""
    return back.emit("reshape", value, shape=(*value.type.shape, 1))


def normalized(back: Backward, x: Value, numbers: tuple[Value, ...]) -> Value:
    """The normalised rows, given their rstd, and before it the mean if that is taken away."""
    rows, wide = [each_row(back, one) for one in numbers], widened(back, x)
    if len(rows) == 1:
        return back.emit("multiply", wide, rows[0])
    return back.emit("normalize", wide, *rows, affine=False)


def row_mean(back: Backward, a: Value, b: Value) -> Value:
    """The means of rows of a·b, as a column."""
    scale = 1 / a.type.shape[-1]
    return each_row(back, back.emit("sum", back.emit("multiply", a, b), axes=(-1,), scale=scale))


def added(back: Backward, parts: list[Value]) -> Any:
    """The sum of one or more values."""
    total, *rest = parts
    for part in rest:
        total = back.emit("add", total, part)
    return total
