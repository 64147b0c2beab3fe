"""The base of element-wise ops: one scalar expression gives the kernel, the reference and every
derivative.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from noeira.errors import DtypeError, ShapeError, VerifyError
from noeira.ir import scalar
from noeira.ir.graph import Builder, Node, Value
from noeira.ir.op import BadSample, Draw, Op, Sample
from noeira.ir.scalar import Expr, var
from noeira.ir.types import TensorType

if TYPE_CHECKING:
    import numpy as np


def broadcasts(part: tuple[int, ...], whole: tuple[int, ...]) -> bool:
    """Whether a shape is read along another: equal, rank 0, or its last axes."""
    return part == () or (len(part) <= len(whole) and whole[len(whole) - len(part) :] == part)


def fault_of(expression: Any, operands: tuple[str, ...], result: str = "") -> str:
    """What is wrong with an expression that is to read the operands, and the result if it has a
    name; empty if nothing is.
    """
    if not isinstance(expression, Expr):
        number = isinstance(expression, int | float)
        hint = f": write lift({float(expression)})" if number else ""
        return f"must be an expression, not {expression!r}{hint}"
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
        found = list[tuple[str, ...]]()
        for index, operand in enumerate(self.operands):
            slope = self.slope(self.Attrs(), index)
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
        return fault_of(self.expression(self.Attrs()), self.operands)

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

    def vjp(
        self,
        builder: Builder,
        node: Node,
        cotangents: tuple[Value | None, ...],
        wanted: tuple[bool, ...],
    ) -> tuple[Value | None, ...]:
        (d_y,) = cotangents
        assert d_y is not None
        given = dict(zip(self.operands, node.inputs, strict=True)) | {"y": node.outputs[0]}
        found = list[Value | None]()
        slope_operands = self.slope_operands
        for index, value in enumerate(node.inputs):
            slope = self.slope(node.attrs, index)
            if not wanted[index] or scalar.is_const(slope, 0):
                found.append(None)
                continue
            full = d_y
            if not scalar.is_const(slope, 1):
                read = [given[name] for name in slope_operands[index]]
                attrs = {
                    name: getattr(node.attrs, name) for name in node.attrs.__dataclass_fields__
                }
                full = builder.emit(
                    f"{self.name}.d{index}", d_y, *read, hint=f"d.{value.name}", **attrs
                )
            found.append(reduce_to(builder, full, value))
        return tuple(found)

    def flops(
        self, attrs: Any, inputs: tuple[TensorType, ...], outputs: tuple[TensorType, ...]
    ) -> int:
        return outputs[0].size * scalar.operation_count(self.expression(attrs))

    def samples(self) -> tuple[Sample, ...]:
        f32 = lambda *shape: TensorType("f32", shape)  # noqa: E731
        shapes = ((1,), (7,), (4, 33), (2, 3, 17))
        same = [Sample((Draw(f32(*s)),) * len(self.operands)) for s in shapes]
        if len(self.operands) > 1:
            rest = (Draw(f32(5, 19)),) * (len(self.operands) - 1)
            same += [Sample((*rest, Draw(f32(19)))), Sample((*rest, Draw(f32())))]
        return tuple(same)

    def bad_samples(self) -> tuple[BadSample, ...]:
        ints = (TensorType("i32", (3,)),) * len(self.operands)
        bad = [BadSample(ints, "must be floats of one dtype")]
        if len(self.operands) == 2:
            types = (TensorType("f32", (3, 4)), TensorType("f32", (3,)))
            bad.append(BadSample(types, "does not fit"))
        return tuple(bad)


def reduce_to(builder: Builder, full: Value, value: Value) -> Value:
    """Sum a cotangent over the axes along which `value` was broadcast."""
    if value.type.shape == full.type.shape:
        return full
    if value.type.shape == ():
        return builder.emit("sum", full, hint=f"d.{value.name}")
    rows = full
    if len(value.type.shape) > 1:
        flat = (full.type.size // value.type.size, value.type.size)
        rows = builder.emit("reshape", full, shape=flat, hint=f"d.{value.name}.rows")
    summed = builder.emit("column_sum", rows, hint=f"d.{value.name}")
    if len(value.type.shape) > 1:
        return builder.emit("reshape", summed, shape=value.type.shape, hint=f"d.{value.name}")
    return summed


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
        f32 = TensorType("f32", (4, 33))
        return (Sample((Draw(f32),) * len(self.operands)),)


def times_slope(d: Expr, slope: Expr) -> Expr:
    """d · slope, with the choice between slopes made first: where a slope is 0 the product is 0,
    whatever d is, as in PyTorch; an infinite cotangent makes no NaN behind a ReLU.
    """
    if slope.op != "select":
        return d * slope
    condition, yes, no = slope.args
    return scalar.select(condition, times_slope(d, yes), times_slope(d, no))
