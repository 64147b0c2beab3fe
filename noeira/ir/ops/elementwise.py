"""The base of element-wise ops: one scalar expression gives the kernel, the reference and every
derivative.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from noeira.errors import DtypeError, ShapeError, VerifyError
from noeira.ir import scalar
from noeira.ir.arrays import dtype_name, rounded
from noeira.ir.attributes import declared, generic, needed, variants
from noeira.ir.broadcasting import common_shape, misfit
from noeira.ir.checks import check_float, check_number, expect
from noeira.ir.gradients import Backward, reduce_to
from noeira.ir.graph import Value
from noeira.ir.op import Op
from noeira.ir.orders import IMAGES, lying_along, order_in, order_together, stored
from noeira.ir.samples import BadSample, Draw, Sample, f32, i32
from noeira.ir.scalar import Expr
from noeira.ir.scalar_numpy import evaluate
from noeira.ir.states import COUNTER
from noeira.ir.types import DTYPE_BYTES, TensorType, Types, computed_in

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import numpy as np


# Shapes that samples repeat the last operand to: the last axes, a number, and, as normalisations,
# attention and convolutions do, rows, channels and an axis between; whole accesses of 16 bytes too.
REPEATED = (
    *(((5, 19), (19,)), ((5, 19), ()), ((5, 19), (5, 1)), ((6, 16), (6, 1)), ((2, 7, 3), (7, 1))),
    *(((2, 3, 4, 5), (3, 1, 1)), ((4, 3, 9), (4, 1, 9)), ((5, 3, 8), (1, 3, 1))),
)
# Pairs of shapes neither of which is that of the result.
PARTIAL = (((4, 1, 19), (1, 3, 19)), ((7, 1), (1, 12)), ((2, 1, 3, 1), (5, 1, 4)))


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
    """y[i] = expression(x[i], …); operands are broadcast as in NumPy: aligned at the right, axes of
    length 1 repeated.

    Subclasses define `expression(attrs)` over variables named like the operands. `slope(attrs,
    index)` may state a derivative by hand, and may use the result, `y`.

    numbers: the operands that are whole numbers: they have no gradient. In arithmetic they are
    floats of the dtype that is computed in; what `uniform` reads is i64[].

    All arithmetic is done in the dtype that the operands are computed in, and the result is rounded
    once, to that it is stored in.
    """

    kind = "map"
    template = "map"
    operands: ClassVar[tuple[str, ...]] = ("x",)
    numbers: ClassVar[tuple[str, ...]] = ()

    def expression(self, attrs: Any) -> Expr:
        """The scalar function."""
        raise ShapeError(f"{self.name}: define `expression` in {type(self).__name__}")

    def slope(self, attrs: Any, index: int) -> Expr:
        """The partial derivative in operand `index`, over the operands and the result `y`."""
        return scalar.derivative(self.expression(attrs), self.operands[index])

    @cached_property
    def slope_operands(self) -> tuple[tuple[str, ...], ...]:
        """For each operand, the values its slope reads; of attributes, flags may change which.

        Raises VerifyError if a slope is no expression over the operands and the result.
        """
        found = list[tuple[str, ...]]()
        for index, operand in enumerate(self.operands):
            read = dict[str, None]()
            for attrs in variants(self.Attrs):
                slope = self.slope(attrs, index)
                if fault := fault_of(slope, self.given_operands(attrs), "y"):
                    raise VerifyError(f"{self.name}: its slope in {operand} {fault}")
                read |= dict.fromkeys(scalar.variables(slope))
            found.append(tuple(read))
        return tuple(found)

    def slope_reads(self, attrs: Any, index: int) -> tuple[str, ...]:
        """The values that a slope reads with these attributes."""
        every = self.slope_operands[index]
        if len(variants(self.Attrs)) == 1:
            return every
        read = scalar.variables(self.slope(attrs, index))
        return tuple(name for name in every if name in read)

    def slope_op(self, index: int) -> Op | None:
        """The op `name.dI`: the cotangent times the slope, itself element-wise."""
        from noeira.ir.ops.slope import Slope

        return Slope.of(self, index) if index < len(self.operands) else None

    @cached_property
    def fault(self) -> str:
        """What is wrong with the expression; empty if nothing is."""
        return next(filter(None, map(self.fault_with, variants(self.Attrs))), "")

    def fault_with(self, attrs: Any) -> str:
        """What is wrong with the expression with these attributes."""
        expression = self.expression(attrs)
        if found := fault_of(expression, self.given_operands(attrs)):
            return found
        for name in scalar.keys(expression):
            if name not in self.numbers:
                return f"draws from {name}, which is not one of the `numbers` of the op"
            if name in scalar.reckoned(expression):
                return f"draws from {name} and reckons with it: it can only do one of both"
        return ""

    def infer(self, attrs: Any, *types: TensorType | None) -> tuple[TensorType, ...]:
        if self.fault:
            raise VerifyError(f"{self.name}: its expression {self.fault}")
        given = self.named(types)
        dtype, shape = self.result_dtype(attrs, given), self.result_shape(attrs, given)
        check_float(self.name, "its result_dtype", dtype)
        # Numbers of the op's own are as its author tried them.
        if declared(self.Attrs):
            wide = computed_in((*(type.dtype for type in given.values()), dtype))
            for number in scalar.constants(self.expression(attrs)):
                check_number(self.name, number, wide)
        return (laid_out(given.values(), dtype, shape),)

    def result_shape(self, attrs: Any, given: Mapping[str, TensorType]) -> tuple[int, ...]:
        """The shape of the result: that which all operands are repeated to.

        Raises ShapeError if they do not go together.
        """
        shape = common_shape(type.shape for type in given.values())
        if shape is None:
            raise ShapeError(f"{self.name}: {misfit(given)}")
        return shape

    def result_dtype(self, attrs: Any, given: Mapping[str, TensorType]) -> str:
        """The dtype of the result: that of the operands but for the `numbers`.

        Raises DtypeError for an operand that is not what it must be.
        """
        floats = [type for name, type in given.items() if name not in self.numbers]
        keys = scalar.keys(self.expression(attrs)) if self.numbers else ()
        for name, type in given.items():
            if name in keys:
                expect(self.name, f"operand {name}", type, COUNTER)
            elif name in self.numbers:
                if type.is_float:
                    raise DtypeError(f"{self.name}: operand {name} is {type}, no whole number")
            elif not type.is_float or type.dtype != floats[0].dtype:
                raise DtypeError(
                    f"{self.name}: operand {name} is {type}; "
                    "its operands must be floats of one dtype"
                )
        if not floats:
            raise DtypeError(f"{self.name}: no operand is a float: define `result_dtype`")
        return floats[0].dtype

    def reference(self, attrs: Any, *arrays: np.ndarray | None) -> tuple[np.ndarray, ...]:
        values = self.named(arrays)
        types = [TensorType(dtype_name(array.dtype), array.shape) for array in values.values()]
        (made,) = self.types(attrs, types)
        dtype = computed_in(type.dtype for type in (*types, made))
        result = evaluate(self.expression(attrs), values, dtype, made.shape)
        return (rounded(result, made.dtype),)

    def vjp(self, attrs: Any, back: Backward) -> dict[str, Value]:
        d_y, found = back.cotangent, dict[str, Value]()
        given = self.named(back.inputs) | {"y": back.outputs[0]}
        for index, name in enumerate(self.operands):
            if name in self.numbers or not back.wants(name):
                continue
            slope = self.slope(attrs, index)
            if scalar.is_const(slope, 0):
                continue
            full = d_y
            if not scalar.is_const(slope, 1):
                read = [given[operand] for operand in self.slope_reads(attrs, index)]
                full = back.emit(f"{self.name}.d{index}", d_y, *read, **vars(attrs))
            found[name] = reduce_to(back, full, given[name].type.shape)
        return found

    def orders(self, attrs: Any, operands: Types, results: Types) -> tuple[str, ...]:
        order = order_together(operands, results[0])
        # Random numbers follow from the number of an element, which kernels tell of images alone.
        drawn = self.numbers and scalar.keys(self.expression(attrs))
        if drawn and order not in IMAGES.values():
            return ()
        return (order,) if order else ()

    def kernel_orders(self, attrs: Any, operands: Types) -> tuple[str | None, ...]:
        (result,) = self.types(attrs, operands)
        return tuple(order_in(type.shape, result) for type in operands)

    def laid(self, attrs: Any, operands: Types, results: Types) -> tuple[Any, Types, Types]:
        (result,) = results
        lie = tuple(lying_along(type, result) for type in operands)
        return attrs, lie, (stored(result),)

    def may_overwrite(self, attrs: Any, *types: TensorType | None) -> dict[str, tuple[str, ...]]:
        (whole,) = self.infer(attrs, *types)
        same = whole.size, whole.size * DTYPE_BYTES[whole.dtype]
        given = self.named(types).items()
        return {self.results[0]: tuple(n for n, t in given if (t.size, t.nbytes) == same)}

    def flops(self, attrs: Any, *types: TensorType | None) -> int:
        (whole,) = self.infer(attrs, *types)
        return whole.size * scalar.operation_count(self.expression(attrs))

    def samples(self) -> tuple[Sample, ...]:
        operands = self.given_operands(generic(self.Attrs))
        count = len(operands)
        shapes = [(shape,) * count for shape in ((1,), (7,), (4, 33), (2, 3, 17))]
        if count > 1:
            shapes += [(*((whole,) * (count - 1)), last) for whole, last in (*REPEATED, *PARTIAL)]
        draws = (tuple(map(self.draw, operands, each)) for each in shapes)
        return tuple(Sample(drawn, needed(self.Attrs)) for drawn in draws)

    def draw(self, operand: str, shape: tuple[int, ...]) -> Draw:
        """An operand of a sample, of that shape if it is not one that `uniform` reads."""
        if operand in scalar.keys(self.expression(generic(self.Attrs))):
            return Draw(COUNTER, "index", 1000)
        return Draw(i32(*shape), "index", 100) if operand in self.numbers else Draw(f32(*shape))

    def bad_samples(self) -> tuple[BadSample, ...]:
        if self.numbers:
            return ()
        operands = self.given_operands(generic(self.Attrs))
        attrs = needed(self.Attrs)
        bad = [BadSample((i32(3),) * len(operands), "must be floats of one dtype", attrs)]
        if len(operands) == 2:
            a, b = operands
            bad += [
                BadSample(
                    (f32(3, 4), f32(3)), f"{b} is f32[3], which does not fit {a}, f32[3, 4]", attrs
                ),
                BadSample((f32(2, 4), f32(3, 1)), f"axis -2 is 3 in {b} and 2 in {a}", attrs),
                BadSample((f32(4, 1, 5), f32(3, 2)), f"axis -1 is 2 in {b} and 5 in {a}", attrs),
            ]
        return tuple(bad)


def laid_out(types: Iterable[TensorType], dtype: str, shape: tuple[int, ...]) -> TensorType:
    """The type of a result of a dtype and a shape. Its elements are where those of the operands
    are: it has the layout of the first operand of its shape, if that has one.
    """
    layouts = (type.layout for type in types if type.shape == shape)
    return TensorType(dtype, shape, next(layouts, None))
