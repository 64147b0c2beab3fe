"""Where gradients stop: `stop_gradient`, always, and `gradient_gate`, as a flag says at run
time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from noeira.errors import DtypeError
from noeira.ir.gradients import Backward
from noeira.ir.graph import Value
from noeira.ir.op import Limits, Op
from noeira.ir.ops.elementwise import Elementwise
from noeira.ir.samples import BadSample, Draw, Sample, drawn, f32
from noeira.ir.scalar import Expr, call, select, var
from noeira.ir.storage import Inside
from noeira.ir.types import TensorType, Types

if TYPE_CHECKING:
    import numpy as np

FLAG = TensorType("bool", ())


class Passing(Op):
    """The parent of views of x as it lies, in whatever order."""

    def storage(self, attrs: Any, operands: Types) -> Inside:
        return Inside()

    def orders(self, attrs: Any, operands: Types, results: Types) -> tuple[str, ...]:
        return (operands[0].order,)

    def kernel_orders(self, attrs: Any, operands: Types) -> tuple[str | None, ...]:
        return (None, *("" for _ in operands[1:]))


class StopGradient(Passing):
    """x; nothing flows back into it. A view."""

    name, operands = "stop_gradient", ("x",)

    def infer(self, attrs: Any, x: TensorType) -> tuple[TensorType, ...]:
        return (TensorType(x.dtype, x.shape),)

    def reference(self, attrs: Any, x: np.ndarray) -> tuple[np.ndarray, ...]:
        return (x,)

    def result_limits(self, attrs: Any, operands: Types, limits: Limits) -> Limits:
        return limits

    def vjp(self, attrs: Any, back: Backward) -> dict[str, Value]:
        return {}

    def samples(self) -> tuple[Sample, ...]:
        return (Sample((Draw(f32(3, 5)),), {}, ()),)


class GradientGate(Passing):
    """x, whose cotangent is that of the result where `open` is true, else 0. A view. x [*], open
    bool[] -> [*]
    """

    name, operands = "gradient_gate", ("x", "open")

    def infer(self, attrs: Any, x: TensorType, open: TensorType) -> tuple[TensorType, ...]:
        if open != FLAG:
            raise DtypeError(f"gradient_gate: open is {open}, it must be {FLAG}")
        return (TensorType(x.dtype, x.shape),)

    def reference(self, attrs: Any, x: np.ndarray, open: np.ndarray) -> tuple[np.ndarray, ...]:
        return (x,)

    def vjp(self, attrs: Any, back: Backward) -> dict[str, Value]:
        return {"x": back.emit("where_open", back.cotangent, back.inputs[1])}

    def samples(self) -> tuple[Sample, ...]:
        return (Sample((Draw(f32(3, 5)), Draw(FLAG, "true"))),)

    def bad_samples(self) -> tuple[BadSample, ...]:
        return (BadSample((f32(3), f32()), "open is f32[], it must be bool[]"),)


class WhereOpen(Elementwise):
    """x where `open`, a flag, is true, else 0, whatever x is"""

    name, operands, numbers = "where_open", ("x", "open"), ("open",)

    def expression(self, attrs: Any) -> Expr:
        return select(call("gt", var("open"), 0.0), var("x"), 0.0)

    def samples(self) -> tuple[Sample, ...]:
        return (Sample((Draw(f32(4, 33)), Draw(FLAG, "true"))), drawn_open((7,)))


def drawn_open(shape: tuple[int, ...]) -> Sample:
    """A sample with a flag for each element."""
    return Sample((*drawn(shape).operands, Draw(TensorType("bool", shape), "index", 2)))
