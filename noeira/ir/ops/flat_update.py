"""Updates of flat states: one scalar expression an element, one kernel for all parameters, and
nothing changes in a step that is not ok.
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields, replace
from inspect import signature
from typing import TYPE_CHECKING, Any, ClassVar

from noeira.errors import DtypeError, OptionError, ShapeError, VerifyError
from noeira.ir import scalar
from noeira.ir.arrays import dtype_name
from noeira.ir.checks import check_number, expect
from noeira.ir.cost import Cost
from noeira.ir.formula import Formula, formula
from noeira.ir.layouts import Range
from noeira.ir.op import Op
from noeira.ir.ops.elementwise import fault_of
from noeira.ir.ranges import check_ranges, covered, distinct, pieces
from noeira.ir.samples import BadSample, Draw, Sample, f32
from noeira.ir.scalar import Expr, var
from noeira.ir.states import COUNTER, FLAG, STEP
from noeira.ir.types import DTYPES, TensorType, computed

if TYPE_CHECKING:
    import numpy as np

# For samples: ranges that lie anywhere; so many that they are searched for; the whole in two and in
# four.
FEW_RANGES = ((1, 5), (9, 131), (200, 251))
MANY_RANGES = tuple((n, n + 7) for n in range(40, 250, 20))
HALVES = ((0, 64), (64, 257))
QUARTERS = ((0, 64), (64, 96), (96, 128), (128, 257))


@dataclass(frozen=True)
class Variation:
    """A formula for all elements of a table: `values` of an attribute, by kind, are a variable of
    its numbers where kinds differ in them.
    """

    formula: Formula
    values: dict[str, tuple[float, ...]]


class FlatUpdate(Op):
    """The parent of ops that give flat states their next values, element by element.

    Every result is named like the operand whose next value it is. Beside flat operands there are
    `scalars`, those of rank 0, `factors`, and `ok`: unless it holds, all stays as it was. Scalars
    in `counters` count, i64[]; others have the dtype of the elements. A factor has it too, and is
    one number, or has one for each range, in order. Operands in `optional`, the last ones, may be
    left out. `Attrs` has `ranges`, a table that may state attributes in `varying` anew for some
    elements; with a table, elements in no range stay as they were. A subclass defines `update`;
    `positive` names operands that are never negative.
    """

    template = "flat_update"
    scalars: ClassVar[tuple[str, ...]] = ()
    counters: ClassVar[tuple[str, ...]] = (STEP,)
    factors: ClassVar[tuple[str, ...]] = ()
    optional: ClassVar[tuple[str, ...]] = ()
    varying: ClassVar[tuple[str, ...]] = ()
    positive: ClassVar[tuple[str, ...]] = ()

    def update(self, attrs: Any, *args: Any, **kwargs: Any) -> dict[str, Expr]:
        """The next value of an element by result, in terms of the operands, given by name.

        Attributes in `varying` may be expressions too: they take part in arithmetic only.
        """
        raise VerifyError(f"{self.name}: define `update` in {type(self).__name__}")

    def values(self, attrs: Any, given: Collection[str]) -> dict[str, Expr]:
        """What `update` is told by name: variables named like the operands given, but `ok`."""
        return {name: var(name) for name in given if name != "ok"}

    def may_end_before(self, operand: str) -> bool:
        return operand in self.optional

    def given_results(self, attrs: Any) -> tuple[str, ...]:
        given = self.given_operands(attrs)
        return tuple(name for name in self.results if name in given)

    def infer(self, attrs: Any, *types: TensorType | None) -> tuple[TensorType, ...]:
        given = self.named(types)
        self.check_types(given)
        first = given[self.results[0]]
        check_ranges(self.name, attrs.ranges, first.size)
        self.check_factors(attrs, given)
        self.check_numbers(attrs, computed(first.dtype))
        self.checked(attrs, given)
        return (first,) * len(self.given_results(attrs))

    def check_types(self, given: dict[str, TensorType]) -> None:
        """Raises ShapeError or DtypeError if operands do not go together."""
        first = given[self.results[0]]
        flat = [t for name, t in given.items() if name in self.flat(given)]
        if len(first.shape) != 1 or any(t != first for t in flat):
            listed = ", ".join(map(str, flat))
            raise ShapeError(f"{self.name}: {listed}: must be flat and of one type")
        if not first.is_float:
            raise DtypeError(f"{self.name}: {first} is not a float")
        for name in self.scalars:
            wanted = COUNTER if name in self.counters else TensorType(first.dtype, ())
            expect(self.name, name, given.get(name), wanted)
        expect(self.name, "ok", given.get("ok"), FLAG)

    def check_factors(self, attrs: Any, given: dict[str, TensorType]) -> None:
        """Raises DtypeError for a factor that is neither one number nor one for each range."""
        dtype, count = given[self.results[0]].dtype, max(1, len(attrs.ranges))
        one, each = TensorType(dtype, ()), TensorType(dtype, (count,))
        for name in self.factors:
            if (type := given.get(name)) is not None and type not in (one, each):
                raise DtypeError(
                    f"{self.name}: {name} is {type}, it must be {one}, or {each}, a number for "
                    "each range"
                )

    def flat(self, given: Collection[str]) -> tuple[str, ...]:
        """Those of the operands given that have a value for each element."""
        others = (*self.scalars, *self.factors, "ok")
        return tuple(name for name in given if name not in others)

    def by_range(self, given: Mapping[str, TensorType | np.ndarray]) -> tuple[str, ...]:
        """The factors that have a number for each of several ranges."""
        return tuple(name for name in self.factors if name in given and given[name].size > 1)

    def check_numbers(self, attrs: Any, dtype: str) -> None:
        """Raises VerifyError for a number of a range that the op does not let vary, or that is out
        of bounds; DtypeError for one, of a range or of all, that does not fit in the dtype.
        """
        numbers = [(field.name, getattr(attrs, field.name)) for field in fields(attrs)]
        for name, value in (*numbers, *(pair for span in attrs.ranges for pair in span.numbers)):
            if isinstance(value, float):
                check_number(f"{self.name}: {name}", value, dtype)
        known = [field.name for field in fields(attrs) if field.name in self.varying]
        for span in attrs.ranges:
            for name, _ in span.numbers:
                if name not in known:
                    vary = " and ".join(known) or "nothing"
                    raise VerifyError(f"{self.name}: the range {span}: {vary} may vary, not {name}")
            try:
                self.of_kind(attrs, span.numbers)
            except OptionError as error:
                raise VerifyError(f"{self.name}: the range {span}: {error}") from None

    def of_kind(self, attrs: Any, numbers: tuple[tuple[str, float], ...]) -> Any:
        """The attributes as they are for elements of a kind."""
        return replace(attrs, ranges=(), **dict(numbers))

    def checked(self, attrs: Any, given: Collection[str]) -> dict[str, Expr]:
        """The expressions. Raises VerifyError if they are not those of the results, over operands
        and attributes.
        """
        values, wanted = self.values(attrs, given), self.given_results(attrs)
        try:
            signature(self.update).bind(attrs, **values)
        except TypeError:
            raise VerifyError(
                f"{self.name}: update must take self, attrs, {', '.join(values)}"
            ) from None
        made = self.update(attrs, **values)
        if not isinstance(made, dict) or tuple(sorted(made)) != tuple(sorted(wanted)):
            got = ", ".join(made) if isinstance(made, dict) else repr(made)
            raise VerifyError(
                f"{self.name}: update must give expressions for {', '.join(wanted)} in a dict, "
                f"got {got}"
            )
        known = tuple(name for name in given if name != "ok")
        for name, expr in made.items():
            if fault := fault_of(expr, (*known, *self.varying)):
                raise VerifyError(f"{self.name}: its expression for {name} {fault}")
        return {name: made[name] for name in wanted}

    def formula(self, attrs: Any, given: Collection[str]) -> Formula:
        """The expressions, with what all elements have in common told apart."""
        return formula(self.checked(attrs, given), self.flat(given))

    def variation(self, attrs: Any, given: Mapping[str, TensorType]) -> Variation:
        """The formula for all kinds of elements."""
        apart = bool(self.by_range(given))
        kinds = [self.of_kind(attrs, numbers) for numbers in distinct(attrs.ranges, apart)]
        values = {
            name: tuple(getattr(kind, name) for kind in kinds)
            for name in self.varying
            if hasattr(attrs, name) and len({getattr(kind, name) for kind in kinds}) > 1
        }
        opened = copy.copy(kinds[0])
        for name in values:
            object.__setattr__(opened, name, var(name))
        return Variation(self.formula(opened, given), values)

    def reference(self, attrs: Any, *arrays: np.ndarray | None) -> tuple[np.ndarray, ...]:
        given = self.named(arrays)
        results = {name: given[name] for name in self.given_results(attrs)}
        if not given.get("ok", True):
            return tuple(results.values())
        by_range, flat = self.by_range(given), self.flat(given)
        common = (*self.scalars, *(name for name in self.factors if name not in by_range))
        scalars = {name: given[name].item() for name in common if name in given}
        first = given[self.results[0]]
        results = {name: array.copy() for name, array in results.items()}
        kinds = distinct(attrs.ranges, bool(by_range))
        for piece in pieces(attrs.ranges, first.size, bool(by_range)):
            if piece.kind < 0:
                continue
            own = self.formula(self.of_kind(attrs, kinds[piece.kind]), given)
            numbers = scalars | {name: given[name][piece.kind] for name in by_range}
            elements = {name: given[name][piece.start : piece.stop] for name in flat}
            for name, new in own.evaluate(numbers, elements, dtype_name(first.dtype)).items():
                results[name][piece.start : piece.stop] = new
        return tuple(results.values())

    def may_overwrite(self, attrs: Any, *types: TensorType | None) -> dict[str, tuple[str, ...]]:
        return {name: (name,) for name in self.given_results(attrs)}

    def flops(self, attrs: Any, *types: TensorType | None) -> int:
        given = self.named(types)
        parts = tuple(self.formula(attrs, given).results.values())
        elements = covered(attrs.ranges, given[self.results[0]].size)
        return elements * (scalar.operation_count(Expr("all", parts)) - 1)

    def cost(self, attrs: Any, *types: TensorType | None) -> Cost:
        """As of every op, but of flat operands only the elements in ranges: the others stay in
        their places.
        """
        whole, given = super().cost(attrs, *types), self.named(types)
        first = given[self.results[0]]
        left = first.nbytes - covered(attrs.ranges, first.size) * DTYPES[first.dtype].bytes
        read, written = len(self.flat(given)), len(self.given_results(attrs))
        return Cost(
            whole.flops, whole.bytes_read - read * left, whole.bytes_written - written * left
        )

    def sample(self, size: int, factors: tuple[int, ...] | None = None, **attrs: Any) -> Sample:
        """Operands of so many elements, with these attributes; factors: the shape of each, without
        one they are left out.
        """
        draws = list[Draw]()
        for name in self.given_operands(self.Attrs(**attrs)):
            if name in self.counters and name in self.scalars:
                draws.append(Draw(COUNTER, "counter"))
            elif name in self.scalars:
                draws.append(Draw(f32()))
            elif name == "ok":
                draws.append(Draw(FLAG, "true"))
            elif name not in self.factors:
                draws.append(Draw(f32(size), "positive" if name in self.positive else "normal"))
            elif factors is not None:
                draws.append(Draw(f32(*factors), "positive"))
        return Sample(tuple(draws), attrs, ())

    def table(self, spans: tuple[tuple[int, int], ...]) -> tuple[Range, ...]:
        """For samples: ranges in which what may vary has one of two values in turn."""
        names = [field.name for field in fields(self.Attrs) if field.name in self.varying]
        numbers = ((), tuple((name, 0.25) for name in names))
        return tuple(Range(*span, numbers[at % 2]) for at, span in enumerate(spans))

    def samples(self) -> tuple[Sample, ...]:
        """Sizes of one element and of some vectors, and tables of ranges."""
        tables = map(self.table, (HALVES, FEW_RANGES, MANY_RANGES))
        return (self.sample(1), *(self.sample(257, ranges=table) for table in tables))

    def bad_samples(self) -> tuple[BadSample, ...]:
        types = [draw.type for draw in self.sample(8).operands]

        def bad(message: str, changed: dict[str, TensorType], **attrs: Any) -> BadSample:
            names = self.given_operands(self.Attrs())
            made = [changed.get(n, t) for n, t in zip(names, types, strict=False)]
            made += [t for n, t in changed.items() if n in self.factors]
            return BadSample(tuple(made), message, attrs)

        overlapping = (Range(0, 4), Range(3, 8))
        wide = {name: TensorType("f64", ()) for name in self.scalars}
        return (
            bad("of one type", {self.results[0]: f32(9)}),
            bad("the range 3:8 must be inside 0:8", {}, ranges=overlapping),
            bad("the range 4:9 must be", {}, ranges=(Range(4, 9),)),
            *([bad("it must be", wide)] if wide else []),
            *(bad("a number for each range", {name: f32(2)}) for name in self.factors),
            BadSample(tuple(types[:1]), f"{self.name} takes {', '.join(self.operands[:2])}, "),
        )
