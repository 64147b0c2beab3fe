"""Slopes: the derivatives of element-wise ops, each made when it is first asked for."""

from __future__ import annotations

from typing import Any

from noeira.errors import VerifyError
from noeira.ir import scalar
from noeira.ir.graph import attr_items
from noeira.ir.ops.elementwise import Elementwise
from noeira.ir.samples import Draw, Sample, f32
from noeira.ir.scalar import Expr, var


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
        read = base.slope_operands[index]
        made.operands = ("d", *(f"a.{n}" for n in read))  # type: ignore[misc]
        made.numbers = tuple(f"a.{n}" for n in read if n in base.numbers)  # type: ignore[misc]
        return made

    def given_operands(self, attrs: Any) -> tuple[str, ...]:
        return ("d", *(f"a.{n}" for n in self.base.slope_reads(attrs, self.index)))

    def expression(self, attrs: Any) -> Expr:
        slope = self.base.slope(attrs, self.index)
        renamed = {n: var(f"a.{n}") for n in self.base.slope_operands[self.index]}
        for name in scalar.variables(slope):
            if name not in renamed:
                shown = ", ".join(f"{key} = {value!r}" for key, value in attr_items(attrs))
                raise VerifyError(
                    f"{self.base.name}: its slope in {self.base.operands[self.index]} reads {name} "
                    f"with {shown}: what is read may depend on attributes that are bool alone"
                )
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
        attrs = self.base.Attrs(**of_base.attrs)
        (result,) = self.base.types(attrs, [draw.type for draw in of_base.operands])
        whole = f32(*result.shape)
        known = dict(zip(self.base.given_operands(attrs), of_base.operands, strict=True))
        positive = all(draw.kind == "positive" for draw in of_base.operands)
        known["y"] = Draw(whole, "positive" if positive else "normal")
        read = (known[name] for name in self.base.slope_reads(attrs, self.index))
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
