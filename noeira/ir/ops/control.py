"""What a step keeps account of: whether it is ok, what then becomes of states, counters, running
totals.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from noeira.errors import ShapeError
from noeira.ir import graph
from noeira.ir.checks import expect
from noeira.ir.op import Op
from noeira.ir.samples import BadSample, Draw, Sample, f32, i32
from noeira.ir.states import COUNTER, FLAG, TOTAL
from noeira.ir.types import ADDED, TensorType

if TYPE_CHECKING:
    import numpy as np

OK, NUMBER = Draw(FLAG, "true"), Draw(COUNTER, "counter")


class Finite(Op):
    """Whether values of rank 0, such as the loss and the norm of gradients, are all finite: every
    update reads it, so that a bad step changes nothing.
    """

    name, operands = "finite", ("x",)

    def infer(self, attrs: Any, *x: TensorType) -> tuple[TensorType, ...]:
        if not x:
            raise ShapeError("finite: needs at least one value")
        for type in x:
            if type.shape or not type.is_float:
                raise ShapeError(f"finite: {type} must be a float of rank 0")
        return (FLAG,)

    def reference(self, attrs: Any, *x: np.ndarray) -> tuple[np.ndarray, ...]:
        import numpy as np

        return (np.asarray(all(np.isfinite(one) for one in x)),)

    def samples(self) -> tuple[Sample, ...]:
        return tuple(Sample((Draw(f32()),) * count, {}, ()) for count in (1, 2, 3))

    def bad_samples(self) -> tuple[BadSample, ...]:
        return (
            BadSample((f32(3),), "rank 0"),
            BadSample((f32(), i32()), "rank 0"),
            BadSample((), "at least one value"),
        )


class Keep(Op):
    """What a state becomes: `new` if the step is ok, else what it was."""

    name, operands, moves = "keep", ("new", "old", "ok"), True

    def infer(
        self, attrs: Any, new: TensorType, old: TensorType, ok: TensorType
    ) -> tuple[TensorType, ...]:
        expect("keep", "new", new, old)
        expect("keep", "ok", ok, FLAG)
        return (old,)

    def reference(
        self, attrs: Any, new: np.ndarray, old: np.ndarray, ok: np.ndarray
    ) -> tuple[np.ndarray, ...]:
        return (new if ok else old,)

    def moved_together(self, attrs: Any, new: TensorType, *others: TensorType) -> int:
        return new.size

    def may_overwrite(self, attrs: Any, *types: TensorType) -> dict[str, tuple[str, ...]]:
        return {"": ("old",)}

    def samples(self) -> tuple[Sample, ...]:
        def sample(type: TensorType) -> Sample:
            kind = "normal" if type.is_float else "counter"
            return Sample((Draw(type, kind), Draw(type, kind), OK), {}, ())

        floats = [f32(*shape) for shape in ((1,), (257,), (7, 33), ())]
        return (*map(sample, floats), sample(COUNTER), sample(TensorType("bool", (19,))))

    def bad_samples(self) -> tuple[BadSample, ...]:
        wide = TensorType("f64", (3,))
        return (
            BadSample((wide, f32(3), FLAG), "new is f64[3], it must be f32[3]"),
            BadSample((f32(3), f32(3), COUNTER), "must be bool[]"),
        )


class Follows(Op):
    """The parent of ops that give the next value of their first operand, a single number."""

    def may_overwrite(self, attrs: Any, *types: TensorType) -> dict[str, tuple[str, ...]]:
        return {"": self.operands[:1]}


@dataclass(frozen=True)
class CountAttrs(graph.Attrs):
    """by: what is added."""

    by: int = 1


class Count(Follows):
    """n + by; with `ok`, only if it holds."""

    name, operands, Attrs = "count", ("n", "ok"), CountAttrs

    def infer(
        self, attrs: CountAttrs, n: TensorType, ok: TensorType | None = None
    ) -> tuple[TensorType, ...]:
        expect("count", "n", n, COUNTER)
        expect("count", "ok", ok, FLAG)
        return (n,)

    def reference(
        self, attrs: CountAttrs, n: np.ndarray, ok: np.ndarray | None = None
    ) -> tuple[np.ndarray, ...]:
        return (n if ok is not None and not ok else n + n.dtype.type(attrs.by),)

    def samples(self) -> tuple[Sample, ...]:
        operands = ((NUMBER,), (NUMBER, OK))
        return tuple(Sample(o, {"by": by}, ()) for o in operands for by in (1, 7))

    def bad_samples(self) -> tuple[BadSample, ...]:
        return (BadSample((i32(),), "must be i64[]"),)


@dataclass(frozen=True)
class AccumulateAttrs(graph.Attrs):
    """weight: a factor on the value, such as the number of samples behind a mean."""

    weight: float = 1.0


class Accumulate(Follows):
    """total + weight · value in f64; with `ok`, only if it holds."""

    name, operands, Attrs = "accumulate", ("total", "value", "ok"), AccumulateAttrs

    def infer(
        self,
        attrs: AccumulateAttrs,
        total: TensorType,
        value: TensorType,
        ok: TensorType | None = None,
    ) -> tuple[TensorType, ...]:
        expect("accumulate", "total", total, TOTAL)
        if value.shape or value.dtype not in ADDED:
            raise ShapeError(f"accumulate: value {value} must have rank 0 and be f32, f64 or i64")
        expect("accumulate", "ok", ok, FLAG)
        return (total,)

    def reference(
        self,
        attrs: AccumulateAttrs,
        total: np.ndarray,
        value: np.ndarray,
        ok: np.ndarray | None = None,
    ) -> tuple[np.ndarray, ...]:
        import numpy as np

        return (total if ok is not None and not ok else total + attrs.weight * np.float64(value),)

    def samples(self) -> tuple[Sample, ...]:
        total = Draw(TOTAL)
        return (
            Sample((total, Draw(f32()), OK), {"weight": 100.0}, ()),
            Sample((total, NUMBER), {}, ()),
        )

    def bad_samples(self) -> tuple[BadSample, ...]:
        return (BadSample((TOTAL, f32(3)), "rank 0"),)


class RecordBad(Follows):
    """The number of the first call that was not ok: `bad` if it is set (>= 0), else `tick` unless
    ok.
    """

    name, operands = "record_bad", ("bad", "tick", "ok")

    def infer(
        self, attrs: Any, bad: TensorType, tick: TensorType, ok: TensorType
    ) -> tuple[TensorType, ...]:
        expect("record_bad", "bad", bad, COUNTER)
        expect("record_bad", "tick", tick, COUNTER)
        expect("record_bad", "ok", ok, FLAG)
        return (bad,)

    def reference(
        self, attrs: Any, bad: np.ndarray, tick: np.ndarray, ok: np.ndarray
    ) -> tuple[np.ndarray, ...]:
        return (tick if bad < 0 and not ok else bad,)

    def samples(self) -> tuple[Sample, ...]:
        return (Sample((NUMBER, NUMBER, OK), {}, ()),)

    def bad_samples(self) -> tuple[BadSample, ...]:
        return (BadSample((COUNTER, COUNTER, COUNTER), "must be bool[]"),)
