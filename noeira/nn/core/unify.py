"""Solve signatures: find the axes that make what one module gives what the next one takes."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from noeira.nn.core.expression import (
    Axis,
    Name,
    Sum,
    bare_name,
    multiply,
    names,
    substitute,
    subtract,
    text,
    variable,
)
from noeira.nn.core.image_axes import image_axes
from noeira.nn.core.signature import Pattern, Signature

# So far from a length that does not fit, lengths that do are looked for.
NEAR = 8


class Misfit(Exception):
    """Two patterns cannot be equal.

    `axis` is the first that differs, counted from the end (-1 is the last), or None. What else may
    be why: `empty`, what would be given or taken and has an axis without elements; count: how many
    elements there must be; orders: those of the axes of images; rule: an equation, lengths: what
    its variables are.
    """

    def __init__(
        self,
        axis: int | None = None,
        left: Axis | None = None,
        right: Axis | None = None,
        empty: Pattern | None = None,
        count: Axis | None = None,
        orders: tuple[str, str] | None = None,
        rule: tuple[Axis, Axis] | None = None,
        lengths: Mapping[str, Axis] | None = None,
    ) -> None:
        super().__init__("the shapes differ")
        self.axis, self.left, self.right = axis, left, right
        self.empty, self.count, self.orders = empty, count, orders
        self.rule, self.lengths = rule, lengths or {}

    @property
    def why(self) -> str:
        """What is said behind the shape that does not fit, where it does not show why: `, of which
        it would make (0, 3)`, `: 24 elements in all`.
        """
        if self.orders is not None:
            return f": {self.orders[1]}, not {self.orders[0]}"
        if self.count is not None:
            return f": {text(self.count)} elements in all"
        return f", of which it would make {self.empty}" if self.empty else ""

    @property
    def unmet(self) -> str:
        """What is said of the equation, if one is why; or empty."""
        return unmet(*self.rule, self.lengths) if self.rule else ""


def unmet(left: Axis, right: Axis, lengths: Mapping[str, Axis]) -> str:
    """What is said of an equation that these lengths do not fulfil, and which near them would."""
    if bare_name(right):
        left, right = right, left
    every = Pattern((*map(variable, lengths), *lengths.values(), left, right))
    *shown, one, other = map(text, Signature((every,), ()).tidy().inputs[0].axes)
    values = zip(shown[: len(lengths)], shown[len(lengths) :], strict=True)
    said = f"{one} must be {other}, which it is not for {', '.join(map(' = '.join, values))}"
    if len(lengths) > 1:
        return said
    ((name, length),) = lengths.items()
    near = list[str]()
    if isinstance(length, int):
        for ways in (range(length - 1, max(length - NEAR, 0), -1), range(length, length + NEAR)):
            good = (n for n in ways if substitute(subtract(left, right), {name: n}) == 0)
            near += map(str, itertools.islice(good, 1))
    return f"{said}, but for {' and '.join(near)}" if near else said


@dataclass
class Solver:
    """What is known so far: the values of variables and of `*`, equations still open, and patterns
    whose elements are still to be counted.
    """

    axes: dict[str, Axis] = field(default_factory=dict)
    rests: dict[str, Pattern] = field(default_factory=dict)
    waiting: list[tuple[Axis, Axis]] = field(default_factory=list)
    counts: list[tuple[Pattern, Axis]] = field(default_factory=list)

    @classmethod
    def of(cls, *signatures: Signature) -> Solver:
        """What signatures, whose names are apart, say to begin with."""
        return cls(
            waiting=[rule for one in signatures for rule in one.where],
            counts=[rule for one in signatures for rule in one.counts],
        )

    def equal(self, left: Pattern, right: Pattern) -> None:
        """Make two patterns equal.

        Raises Misfit, after which the solver is not to be used again.
        """
        left, right = self.applied(left), self.applied(right)
        if left.dtype != right.dtype:
            raise Misfit
        orders = image_axes(left), image_axes(right)
        if all(orders) and orders[0] != orders[1]:
            raise Misfit(orders=orders)
        common = min(len(left.axes), len(right.axes))
        self.equal_fronts(left, right, common)
        for position in range(-1, -common - 1, -1):
            try:
                self.equal_axes(left.axes[position], right.axes[position])
            except Misfit:
                raise Misfit(position, left.axes[position], right.axes[position]) from None
        self.settle()

    def equal_fronts(self, left: Pattern, right: Pattern, common: int) -> None:
        """The axes before the common ones: a `*` stands for what the other side has more."""
        more_left = left.axes[: len(left.axes) - common]
        more_right = right.axes[: len(right.axes) - common]
        if left.rest == right.rest:
            if more_left or more_right:
                raise Misfit
        elif left.rest and not more_left:
            self.rests[left.rest] = Pattern(more_right, right.rest)
        elif right.rest and not more_right:
            self.rests[right.rest] = Pattern(more_left, left.rest)
        else:
            raise Misfit

    def equal_axes(self, left: Axis, right: Axis) -> None:
        """Make two lengths equal, now or, if that cannot be decided yet, later."""
        left, right = self.resolved(left), self.resolved(right)
        difference = subtract(left, right)
        if isinstance(difference, int):
            if difference:
                raise Misfit
            return
        for one, other in ((left, right), (right, left)):
            name = bare_name(one)
            if name is not None and name not in names(other):
                self.bind(name, other)
                return
        if not self.solved(difference):
            self.waiting.append((left, right))

    def solved(self, difference: Sum) -> bool:
        """Solve c·H + d = 0 for H; False if the equation is of another kind."""
        if len(difference.terms) != 1 or not isinstance(difference.terms[0][0], Name):
            return False
        name, coefficient = difference.terms[0][0].text, difference.terms[0][1]
        value, remainder = divmod(-difference.constant, coefficient)
        if remainder:
            raise Misfit
        self.bind(name, value)
        return True

    def bind(self, name: str, value: Axis) -> None:
        """Give a variable its value; an axis has at least one element."""
        if isinstance(value, int) and value < 1:
            raise Misfit
        self.axes[name] = value

    def settle(self) -> None:
        """Look at the open equations again: what was just learnt may decide them."""
        self.count()
        before = -1
        while self.waiting and len(self.axes) != before:
            before = len(self.axes)
            again, self.waiting = self.waiting, []
            for left, right in again:
                try:
                    self.equal_axes(left, right)
                except Misfit:
                    own = dict.fromkeys((*names(left), *names(right)))
                    lengths = {name: self.resolved(variable(name)) for name in own}
                    raise Misfit(rule=(left, right), lengths=lengths) from None

    def count(self) -> None:
        """Count the elements of the patterns whose axes are all known by now."""
        again, self.counts = self.counts, []
        for one, wanted in again:
            pattern, number = self.applied(one), self.resolved(wanted)
            known = elements(pattern)
            if isinstance(known, int) and isinstance(number, int) and number % known:
                raise Misfit(count=number)
            if pattern.rest:
                self.counts.append((pattern, number))
                continue
            try:
                self.equal_axes(known, number)
            except Misfit:
                raise Misfit(count=number) from None

    def resolved(self, axis: Axis) -> Axis:
        """The length with everything known put in; what a variable comes to is kept."""
        found = axis
        while any(name in self.axes for name in names(found)):
            found = substitute(found, self.axes)
        name = bare_name(axis)
        if name is not None and found is not axis:
            self.axes[name] = found
        return found

    def applied(self, pattern: Pattern) -> Pattern:
        """The pattern with everything known put in."""
        if pattern.rest in self.rests:
            front = self.front(pattern.rest)
            pattern = replace(pattern, axes=front.axes + pattern.axes, rest=front.rest)
        return pattern.mapped(self.resolved)

    def front(self, rest: str) -> Pattern:
        """What the axes behind a `*` are known to be; kept, so that a chain of them is gone through
        once.
        """
        path, last = list[str](), rest
        while last in self.rests:
            path.append(last)
            last = self.rests[last].rest or ""
        found = Pattern((), last or None)
        for name in reversed(path):
            found = Pattern(found.axes + self.rests[name].axes, found.rest)
            self.rests[name] = found
        return found

    def result(self, inputs: Sequence[Pattern], outputs: Sequence[Pattern]) -> Signature:
        """The signature of a composite, with everything known put in."""
        where = tuple((self.resolved(a), self.resolved(b)) for a, b in self.waiting)
        counts = tuple((self.applied(p), self.resolved(n)) for p, n in self.counts)
        return Signature(
            tuple(map(self.applied, inputs)), tuple(map(self.applied, outputs)), where, counts
        )


def elements(pattern: Pattern) -> Axis:
    """How many elements a pattern without `*` has."""
    found: Axis = 1
    for axis in pattern.axes:
        found = multiply(found, axis)
    return found


def solve(
    signature: Signature,
    inputs: Sequence[Pattern | None] = (),
    outputs: Sequence[Pattern | None] = (),
) -> Signature:
    """The signature with some inputs or outputs given; what is None follows from the others.

    Raises Misfit, whose `axis` is that of the pattern that does not fit.
    """
    solver = Solver.of(signature)
    for expected, given in (
        *zip(signature.inputs, inputs, strict=False),
        *zip(signature.outputs, outputs, strict=False),
    ):
        if given is not None:
            solver.equal(expected, Signature((given,), ()).apart("given").inputs[0])
    solver.settle()
    solved = solver.result(signature.inputs, signature.outputs)
    for pattern in solved.patterns:
        for position, axis in enumerate(pattern.axes):
            if isinstance(axis, int) and axis < 1:
                raise Misfit(position - len(pattern.axes), axis, empty=pattern)
    return solved.tidy()


def closed(signature: Signature) -> Signature:
    """With every `*` standing for no axes; where its elements are counted, for one of so many.

    Raises Misfit if that does not fit.
    """
    solver = Solver.of(signature)
    for pattern, count in signature.counts:
        if pattern.rest and not pattern.axes and isinstance(count, int):
            solver.rests[pattern.rest] = Pattern((count,))
    solver.rests = {name: Pattern(()) for name in signature.rests()} | solver.rests
    solver.settle()
    return solver.result(signature.inputs, signature.outputs)
