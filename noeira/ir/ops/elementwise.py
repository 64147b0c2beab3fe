"""The base of element-wise ops: one scalar expression gives the kernel, the reference and every
derivative.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from noeira.errors import DtypeError, ShapeError, VerifyError
from noeira.ir import scalar
from noeira.ir.attributes import generic
from noeira.ir.checks import broadcasts
from noeira.ir.gradients import Backward
from noeira.ir.graph import Value
from noeira.ir.op import Op
from noeira.ir.samples import BadSample, Draw, Sample, drawn, f32, i32
from noeira.ir.scalar import Expr, var
from noeira.ir.types import TensorType

if TYPE_CHECKING:
    import numpy as np


def fault_of(expression: Any, operands: tuple[str, ...], result: str = "") -> str:
    """What is wrong with an expression that is to read the operands, and the result if it has a
    name; empty if nothing is.
    """
    if not isinstance(expression, Expr):
        number = isinstance(expression, int | float)
        hint = f": write lift({float(expression)})" if number else ""
        return f"must be an expression, not {expression!r}{hint}"
    if expression.op in scalar.COMPARISONS:
        return "is a comparison: write select(…, 1, 0)"
    for name in scalar.variables(expression):
        if name not in (*operands, result):
            known = f"its operands are {', '.join(operands)}"
            also = f", and its result is {result}" if result else ""
            return f"uses {name}, which is no operand; {known}{also}"
    return ""


class Elementwise(Op):
    """y[i] = expression(x[i], …); an operand of rank 0, or with only the last axes, is broadcast.

    Subclasses define `expression(attrs)` over variables named like the operands. `slope(attrs,
    index)` may state a derivative by hand, and may use the result, `y`.
    """

    kind = "map"
    template = "map"
    operands: ClassVar[tuple[str, ...]] = ("x",)

    def expression(self, attrs: Any) -> Expr:
        """The scalar function."""
        raise ShapeError(f"{self.name}: define `expression` in {type(self).__name__}")

    def slope(self, attrs: Any, index: int) -> Expr:
        """The partial derivative in operand `index`, over the operands and the result `y`."""
        return scalar.derivative(self.expression(attrs), self.operands[index])

    @cached_property
    def slope_operands(self) -> tuple[tuple[str, ...], ...]:
        """For each operand, the values its slope reads; attributes never change which.

        Raises VerifyError if a slope is no expression over the operands and the result.
        """
        found, attrs = list[tuple[str, ...]](), generic(self.Attrs)
        for index, operand in enumerate(self.operands):
            slope = self.slope(attrs, index)
            if fault := fault_of(slope, self.operands, "y"):
                raise VerifyError(f"{self.name}: its slope in {operand} {fault}")
            found.append(scalar.variables(slope))
        return tuple(found)

    def slope_op(self, index: int) -> Op | None:
        """The op `name.dI`: the cotangent times the slope, itself element-wise."""
        return Slope.of(self, index) if index < len(self.operands) else None

    @cached_property
    def fault(self) -> str:
        """What is wrong with the expression; empty if nothing is."""
        return fault_of(self.expression(generic(self.Attrs)), self.operands)

    def infer(self, attrs: Any, *types: TensorType) -> tuple[TensorType, ...]:
        if len(types) != len(self.operands):
            raise ShapeError(f"{self.name} takes {len(self.operands)} operands, got {len(types)}")
        if self.fault:
            raise VerifyError(f"{self.name}: its expression {self.fault}")
        whole = max(types, key=lambda t: len(t.shape))
        for name, type in zip(self.operands, types, strict=True):
            if not type.is_float or type.dtype != whole.dtype:
                raise DtypeError(
                    f"{self.name}: operand {name} is {type}; "
                    "its operands must be floats of one dtype"
                )
            if not broadcasts(type.shape, whole.shape):
                raise ShapeError(
                    f"{self.name}: operand {name} is {type}, which does not fit {whole}"
                )
        return (whole,)

    def reference(self, attrs: Any, *arrays: np.ndarray) -> tuple[np.ndarray, ...]:
        values = dict(zip(self.operands, arrays, strict=True))
        return (scalar.evaluate(self.expression(attrs), values, arrays[0].dtype),)

    def vjp(self, attrs: Any, back: Backward) -> dict[str, Value]:
        d_y, found = back.cotangent, dict[str, Value]()
        given = dict(zip(self.operands, back.inputs, strict=True)) | {"y": back.outputs[0]}
        for index, name in enumerate(self.operands):
            slope = self.slope(attrs, index)
            if not back.wants(name) or scalar.is_const(slope, 0):
                continue
            full = d_y
            if not scalar.is_const(slope, 1):
                read = [given[operand] for operand in self.slope_operands[index]]
                full = back.emit(f"{self.name}.d{index}", d_y, *read, **vars(attrs))
            found[name] = reduce_to(back, full, given[name].type.shape)
        return found

    def may_overwrite(self, attrs: Any, *types: TensorType) -> dict[int, tuple[int, ...]]:
        whole = max(types, key=lambda t: t.size)
        return {0: tuple(i for i, t in enumerate(types) if t.size == whole.size)}

    def flops(self, attrs: Any, *types: TensorType) -> int:
        return max(t.size for t in types) * scalar.operation_count(self.expression(attrs))

    def samples(self) -> tuple[Sample, ...]:
        count = len(self.operands)
        same = [drawn(*((shape,) * count)) for shape in ((1,), (7,), (4, 33), (2, 3, 17))]
        if count > 1:
            same += [drawn(*(((5, 19),) * (count - 1)), last) for last in ((19,), ())]
        return tuple(same)

    def bad_samples(self) -> tuple[BadSample, ...]:
        bad = [BadSample((i32(3),) * len(self.operands), "must be floats of one dtype")]
        if len(self.operands) == 2:
            bad.append(BadSample((f32(3, 4), f32(3)), "does not fit"))
        return tuple(bad)


def reduce_to(back: Backward, full: Value, shape: tuple[int, ...], scale: float = 1.0) -> Value:
    """`scale` times the sum of a cotangent over the axes along which an operand of that shape was
    broadcast.
    """
    if shape == full.type.shape:
        return full if scale == 1.0 else back.emit("scale", full, factor=scale)
    if shape == ():
        return back.emit("sum", full, scale=scale)
    if len(shape) == 1:
        return back.emit("column_sum", full, scale=scale)
    columns = math.prod(shape)
    rows = back.emit("reshape", full, shape=(full.type.size // columns, columns))
    return back.emit("reshape", back.emit("column_sum", rows, scale=scale), shape=shape)


class Slope(Elementwise):
    """d · ∂base/∂x_I: the derivative of an element-wise op times the cotangent; made on demand,
    never by hand.
    """

    base: Elementwise
    index: int

    @staticmethod
    def of(base: Elementwise, index: int) -> Slope:
        """The slope op of `base` in operand `index`."""
        made = Slope()
        made.base, made.index = base, index
        made.name = f"{base.name}.d{index}"  # type: ignore[misc]
        made.Attrs = base.Attrs  # type: ignore[misc]
        made.operands = ("d", *(f"a.{n}" for n in base.slope_operands[index]))  # type: ignore[misc]
        return made

    def expression(self, attrs: Any) -> Expr:
        slope = self.base.slope(attrs, self.index)
        renamed = {n: var(f"a.{n}") for n in self.base.slope_operands[self.index]}
        return times_slope(var("d"), scalar.substitute(slope, renamed))

    def samples(self) -> tuple[Sample, ...]:
        """For each choice of attributes that the base is tried with, its largest sample; the
        cotangent is normal, and so is the result, but positive where all operands are.
        """
        largest: dict[str, Sample] = {}
        for sample in sorted(self.base.samples(), key=size_of):
            largest[repr(sample.attrs)] = sample
        return tuple(map(self.sample, largest.values()))

    def sample(self, of_base: Sample) -> Sample:
        """The slope's sample for one of the base."""
        whole = max((draw.type for draw in of_base.operands), key=lambda t: len(t.shape))
        known = dict(zip(self.base.operands, of_base.operands, strict=True))
        positive = all(draw.kind == "positive" for draw in of_base.operands)
        known["y"] = Draw(whole, "positive" if positive else "normal")
        read = (known[name] for name in self.base.slope_operands[self.index])
        return Sample((Draw(whole), *read), of_base.attrs)


def size_of(sample: Sample) -> int:
    """The elements of a sample's largest operand."""
    return max(draw.type.size for draw in sample.operands)


def times_slope(d: Expr, slope: Expr) -> Expr:
    """d · slope, with the choice between slopes made first: where a slope is 0 the product is 0,
    whatever d is, as in PyTorch; an infinite cotangent makes no NaN behind a ReLU.
    """
    if slope.op != "select":
        return d * slope
    condition, yes, no = slope.args
    return scalar.select(condition, times_slope(d, yes), times_slope(d, no))
