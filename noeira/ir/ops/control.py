"""What a step keeps account of: whether it is ok, what then becomes of states, counters, running
totals, the data cursor.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from noeira.errors import DtypeError, ShapeError
from noeira.ir import graph
from noeira.ir.op import BadSample, Draw, Op, Sample
from noeira.ir.states import COUNTER, FLAG, TOTAL
from noeira.ir.types import TensorType

if TYPE_CHECKING:
    import numpy as np


def expect(name: str, operand: str, got: TensorType, want: TensorType) -> None:
    """Raises DtypeError if an operand has not the one type it can have."""
    if got != want:
        raise DtypeError(f"{name}: {operand} is {got}, it must be {want}")


class Finite(Op):
    """Whether a value of rank 0 is finite: every update reads it, so that a bad step changes
    nothing.
    """

    name, operands = "finite", ("x",)

    def infer(self, attrs: Any, x: TensorType) -> tuple[TensorType, ...]:
        if x.shape or not x.is_float:
            raise ShapeError(f"finite: {x} must be a float of rank 0")
        return (FLAG,)

    def reference(self, attrs: Any, x: np.ndarray) -> tuple[np.ndarray, ...]:
        import numpy as np

        return (np.asarray(np.isfinite(x)),)

    def samples(self) -> tuple[Sample, ...]:
        return (Sample((Draw(TensorType("f32", ())),), {}, ()),)

    def bad_samples(self) -> tuple[BadSample, ...]:
        return (BadSample((TensorType("f32", (3,)),), "rank 0"),)


class Keep(Op):
    """What a state becomes: `new` if the step is ok, else what it was."""

    name, operands, aliases = "keep", ("new", "old", "ok"), {0: 1}

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

    def samples(self) -> tuple[Sample, ...]:
        def sample(type: TensorType) -> Sample:
            kind = "normal" if type.is_float else "counter"
            return Sample((Draw(type, kind), Draw(type, kind), Draw(FLAG, "true")), {}, ())

        f32 = [TensorType("f32", shape) for shape in ((1,), (257,), (7, 33), ())]
        return (*map(sample, f32), sample(COUNTER), sample(TensorType("bool", (19,))))

    def bad_samples(self) -> tuple[BadSample, ...]:
        f32, f64 = TensorType("f32", (3,)), TensorType("f64", (3,))
        return (
            BadSample((f64, f32, FLAG), "new is f64[3], it must be f32[3]"),
            BadSample((f32, f32, COUNTER), "must be bool[]"),
        )


class Count(Op):
    """n + 1; with `ok`, n + 1 if it holds and n if not."""

    name, operands, aliases = "count", ("n", "ok"), {0: 0}

    def infer(
        self, attrs: Any, n: TensorType, ok: TensorType | None = None
    ) -> tuple[TensorType, ...]:
        expect("count", "n", n, COUNTER)
        if ok is not None:
            expect("count", "ok", ok, FLAG)
        return (n,)

    def reference(
        self, attrs: Any, n: np.ndarray, ok: np.ndarray | None = None
    ) -> tuple[np.ndarray, ...]:
        return (n + n.dtype.type(1 if ok is None or ok else 0),)

    def samples(self) -> tuple[Sample, ...]:
        n, ok = Draw(COUNTER, "counter"), Draw(FLAG, "true")
        return (Sample((n,), {}, ()), Sample((n, ok), {}, ()))

    def bad_samples(self) -> tuple[BadSample, ...]:
        return (BadSample((TensorType("i32", ()),), "must be i64[]"),)


@dataclass(frozen=True)
class AccumulateAttrs(graph.Attrs):
    """weight: a factor on the value, such as the number of samples behind a mean."""

    weight: float = 1.0


class Accumulate(Op):
    """total + weight · value in f64; with `ok`, only if it holds."""

    name, Attrs, aliases = "accumulate", AccumulateAttrs, {0: 0}
    operands = ("total", "value", "ok")

    def infer(
        self,
        attrs: AccumulateAttrs,
        total: TensorType,
        value: TensorType,
        ok: TensorType | None = None,
    ) -> tuple[TensorType, ...]:
        expect("accumulate", "total", total, TOTAL)
        if value.shape or value.dtype not in ("f32", "f64", "i64"):
            raise ShapeError(f"accumulate: value {value} must have rank 0 and be f32, f64 or i64")
        if ok is not None:
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
        total, ok = Draw(TOTAL), Draw(FLAG, "true")
        return (
            Sample((total, Draw(TensorType("f32", ())), ok), {"weight": 100.0}, ()),
            Sample((total, Draw(COUNTER, "counter")), {}, ()),
        )

    def bad_samples(self) -> tuple[BadSample, ...]:
        return (BadSample((TOTAL, TensorType("f32", (3,))), "rank 0"),)


@dataclass(frozen=True)
class AdvanceAttrs(graph.Attrs):
    """by: samples in a batch."""

    by: int = 1


class Advance(Op):
    """The next batch's cursor: cursor + by; with `ok`, only if it holds."""

    name, Attrs, aliases = "advance", AdvanceAttrs, {0: 0}
    operands = ("cursor", "ok")

    def infer(
        self, attrs: AdvanceAttrs, cursor: TensorType, ok: TensorType | None = None
    ) -> tuple[TensorType, ...]:
        expect("advance", "cursor", cursor, COUNTER)
        if ok is not None:
            expect("advance", "ok", ok, FLAG)
        return (cursor,)

    def reference(
        self, attrs: AdvanceAttrs, cursor: np.ndarray, ok: np.ndarray | None = None
    ) -> tuple[np.ndarray, ...]:
        return (cursor if ok is not None and not ok else cursor + attrs.by,)

    def samples(self) -> tuple[Sample, ...]:
        cursor, ok = Draw(COUNTER, "counter"), Draw(FLAG, "true")
        return (Sample((cursor, ok), {"by": 5}, ()), Sample((cursor,), {"by": 7}, ()))

    def bad_samples(self) -> tuple[BadSample, ...]:
        return (BadSample((TensorType("i32", ()),), "must be i64[]"),)


class RecordBad(Op):
    """The number of the first call that was not ok: `bad` if it is set (>= 0), else `tick` unless
    ok.
    """

    name, operands, aliases = "record_bad", ("bad", "tick", "ok"), {0: 0}

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
        n, ok = Draw(COUNTER, "counter"), Draw(FLAG, "true")
        return (Sample((n, n, ok), {}, ()),)

    def bad_samples(self) -> tuple[BadSample, ...]:
        return (BadSample((COUNTER, COUNTER, COUNTER), "must be bool[]"),)
