"""Signatures: what a module takes and gives for one sample, `(*, IN) -> (*, OUT)`, and their
parser.

    signature = pattern {"," pattern} "->" pattern {"," pattern}
    pattern   = "(" [axis {"," axis}] [":" dtype ["<" expression]] ")"
    axis      = "*" | expression                  `*`, only in front: any number of leading axes
    expression: whole numbers and upper-case names with + - * // and parentheses

A name is a type parameter of the module (`IN`) or else a variable that an input shape decides
(`H`). A pattern without a dtype is floating point, in the dtype of the network; `(*: i32 < C)` are
whole numbers from 0 to C - 1, `(*: i32)` any there are.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import NoReturn, TypeAlias

from noeira.errors import CompositionError
from noeira.ir.numbers import whole_number
from noeira.ir.types import DTYPE_BYTES, INDICES
from noeira.nn.core.expression import (
    Axis,
    add,
    divide,
    multiply,
    names,
    substitute,
    subtract,
    text,
    variable,
)

# How shapes are written outside a signature: (784,), or ("*", 256) with axes that are still open.
Shape: TypeAlias = tuple[int | str, ...]

TOKENS = re.compile(r"\s*(->|//|[A-Za-z_][A-Za-z0-9_]*|\d+|[()*,:<+\-])")


@dataclass(frozen=True)
class Pattern:
    """One tensor of a signature; `rest` names the leading axes that `*` stands for."""

    axes: tuple[Axis, ...]
    rest: str | None = None
    dtype: str | None = None
    below: Axis | None = None

    def __str__(self) -> str:
        body = ", ".join((["*"] if self.rest else []) + [text(axis) for axis in self.axes])
        limit = "" if self.below is None else f" < {text(self.below)}"
        return f"({body}: {self.dtype}{limit})" if self.dtype else f"({body})"

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of a pattern in which nothing is open. ValueError if something is."""
        if self.rest or not all(isinstance(axis, int) for axis in self.axes):
            raise ValueError(f"{self} is not a shape yet")
        return tuple(axis for axis in self.axes if isinstance(axis, int))

    @property
    def limit(self) -> int | None:
        """For whole numbers: the number they stay below, if there is one."""
        return self.below if isinstance(self.below, int) else None

    def open_names(self) -> tuple[str, ...]:
        """The variables among the axes."""
        return tuple(dict.fromkeys(name for axis in self.axes for name in names(axis)))

    def written(self) -> Shape:
        """As a tuple of numbers and texts: `("*", 256)`."""
        axes = tuple(axis if isinstance(axis, int) else text(axis) for axis in self.axes)
        return ("*", *axes) if self.rest else axes

    def mapped(self, change: Callable[[Axis], Axis]) -> Pattern:
        """The pattern with every axis changed."""
        below = None if self.below is None else change(self.below)
        return replace(self, axes=tuple(map(change, self.axes)), below=below)


@dataclass(frozen=True)
class Signature:
    """What a module takes and gives. where: equations that only an input shape can decide; counts:
    patterns, with how many elements each has.
    """

    inputs: tuple[Pattern, ...]
    outputs: tuple[Pattern, ...]
    where: tuple[tuple[Axis, Axis], ...] = ()
    counts: tuple[tuple[Pattern, Axis], ...] = ()

    def __str__(self) -> str:
        body = f"{listed(self.inputs)} -> {listed(self.outputs)}"
        found = [f"{text(a)} = {text(b)}" for a, b in self.where]
        rules = ", ".join([*found, *(f"{p} has {text(n)} elements" for p, n in self.counts)])
        return f"{body} where {rules}" if rules else body

    @property
    def patterns(self) -> tuple[Pattern, ...]:
        """Inputs, then outputs."""
        return self.inputs + self.outputs

    def filled(self, values: Mapping[str, Axis]) -> Signature:
        """With type parameters replaced by their values."""
        return self.mapped(lambda axis: substitute(axis, values))

    def mapped(self, change: Callable[[Axis], Axis]) -> Signature:
        """The signature with every axis changed."""
        return Signature(
            tuple(p.mapped(change) for p in self.inputs),
            tuple(p.mapped(change) for p in self.outputs),
            tuple((change(a), change(b)) for a, b in self.where),
            tuple((p.mapped(change), change(n)) for p, n in self.counts),
        )

    def variables(self) -> tuple[str, ...]:
        """Every variable, in order of appearance."""
        axes = [
            axis
            for p in (*self.patterns, *(p for p, _ in self.counts))
            for axis in (*p.axes, *([p.below] if p.below is not None else []))
        ]
        axes += [axis for rule in self.where for axis in rule]
        axes += [count for _, count in self.counts]
        return tuple(dict.fromkeys(name for axis in axes for name in names(axis)))

    def rests(self) -> tuple[str, ...]:
        """Every name behind a `*`."""
        every = (*self.patterns, *(p for p, _ in self.counts))
        return tuple(dict.fromkeys(p.rest for p in every if p.rest))

    def renamed(self, axes: Mapping[str, str], rests: Mapping[str, str]) -> Signature:
        """With variables, and the names behind `*`, called otherwise."""
        changed = self.filled({old: variable(new) for old, new in axes.items()})

        def rest(p: Pattern) -> Pattern:
            return replace(p, rest=rests.get(p.rest, p.rest)) if p.rest else p

        return replace(
            changed,
            inputs=tuple(map(rest, changed.inputs)),
            outputs=tuple(map(rest, changed.outputs)),
            counts=tuple((rest(p), n) for p, n in changed.counts),
        )

    def apart(self, tag: object) -> Signature:
        """With names that no other signature uses, so that several can be solved together."""
        return self.renamed(
            {name: f"{name}'{tag}" for name in self.variables()},
            {name: f"{name}'{tag}" for name in self.rests()},
        )

    def tidy(self) -> Signature:
        """With the tags of `apart` taken off again; what then shares a name is numbered: H, H2."""
        taken: dict[str, str] = {}
        for name in self.variables():
            base, count = name.partition("'")[0], 1
            while (fresh := base if count == 1 else f"{base}{count}") in taken.values():
                count += 1
            taken[name] = fresh
        return self.renamed(taken, {name: f"*{index}" for index, name in enumerate(self.rests())})


def listed(patterns: tuple[Pattern, ...]) -> str:
    """Patterns, separated by commas."""
    return ", ".join(map(str, patterns))


def pattern(shape: object, like: Pattern | None = None) -> Pattern:
    """A shape as users write it, `(784,)` or `("*", 256)`, as a pattern of the dtype of `like`.

    Raises CompositionError, saying how a shape is written.
    """
    if isinstance(shape, Pattern):
        return shape
    if isinstance(shape, int) and not isinstance(shape, bool):
        raise CompositionError(f"a shape is a tuple: write ({shape},), not {shape}")
    if not isinstance(shape, (tuple, list)):
        raise CompositionError(f"a shape is a tuple such as (784,), not {shape!r}")
    rest = "*" if shape and isinstance(shape[0], str) and shape[0] == "*" else None
    axes = tuple(axis_of(item, shape) for item in shape[1 if rest else 0 :])
    return Pattern(axes, rest, like.dtype if like else None, like.below if like else None)


def axis_of(item: object, shape: object) -> Axis:
    """One axis of a shape that a user wrote."""
    if isinstance(item, str):
        return parse_axis(item, f"the shape {shape!r}")
    length = whole_number(item)
    if length is None:
        raise CompositionError(f"the shape {shape!r}: {item!r} is not the length of an axis")
    if length < 1:
        raise CompositionError(
            f"the shape {shape!r}: an axis has at least one element, not {length}"
        )
    return length


@functools.cache
def parse_signature(source: str, owner: str) -> Signature:
    """Read a signature. Raises CompositionError that names `owner` and points at the place."""
    return Parser(source, f"the signature of {owner}").signature()


@functools.cache
def parse_axis(source: str, owner: str) -> Axis:
    """Read an expression. Raises CompositionError that names `owner` and points at the place."""
    parser = Parser(source, owner)
    axis = parser.expression()
    if parser.token:
        parser.fail("expected the end")
    return axis


class Parser:
    """Reads signatures and expressions from left to right, one token ahead."""

    def __init__(self, source: str, owner: str) -> None:
        self.source, self.owner = source, owner
        self.start = self.end = 0
        self.token = ""
        self.advance()

    def advance(self) -> str:
        """Go to the next token; gives the one left behind."""
        before = self.token
        blank = len(self.source) - len(self.source[self.end :].lstrip())
        if blank >= len(self.source):
            self.start, self.token = len(self.source), ""
            return before
        found = TOKENS.match(self.source, self.end)
        if found is None:
            self.start = blank
            self.fail("this sign has no meaning here")
        self.token, self.start, self.end = found.group(1), found.start(1), found.end()
        return before

    def fail(self, message: str) -> NoReturn:
        """Point at the current token."""
        raise CompositionError(
            f"{self.owner}: {message}\n\n    {self.source}\n    {' ' * self.start}^"
        )

    def take(self, token: str) -> bool:
        """Go past `token` if it is there."""
        if self.token == token:
            self.advance()
            return True
        return False

    def expect(self, token: str) -> None:
        """Go past `token`, which must be there."""
        if not self.take(token):
            self.fail(f"expected {token!r}")

    def signature(self) -> Signature:
        """pattern {"," pattern} "->" pattern {"," pattern}"""
        inputs = self.patterns()
        self.expect("->")
        outputs = self.patterns()
        if self.token:
            self.fail("expected the end")
        return Signature(inputs, outputs)

    def patterns(self) -> tuple[Pattern, ...]:
        """pattern {"," pattern}"""
        found = [self.pattern()]
        while self.take(","):
            found.append(self.pattern())
        return tuple(found)

    def pattern(self) -> Pattern:
        """One tensor."""
        self.expect("(")
        axes, rest = list[Axis](), None
        if self.token not in (")", ":"):
            if self.take("*"):
                rest = "*"
            else:
                axes.append(self.expression())
            while self.take(","):
                if self.token == "*":
                    self.fail("`*` stands only in front of the other axes")
                axes.append(self.expression())
        dtype, below = None, None
        if self.take(":"):
            dtype, below = self.dtype()
        self.expect(")")
        return Pattern(tuple(axes), rest, dtype, below)

    def dtype(self) -> tuple[str, Axis | None]:
        """A dtype and, for whole numbers, the limit below which they stay."""
        if self.token not in DTYPE_BYTES:
            self.fail(f"expected a dtype: {', '.join(DTYPE_BYTES)}")
        dtype = self.advance()
        if self.token == "<" and dtype not in INDICES:
            self.fail(f"only whole numbers have a limit, not {dtype}")
        return dtype, self.expression() if self.take("<") else None

    def expression(self) -> Axis:
        """term {("+" | "-") term}"""
        axis = self.term()
        while self.token in ("+", "-"):
            combine = add if self.advance() == "+" else subtract
            axis = combine(axis, self.term())
        return axis

    def term(self) -> Axis:
        """factor {("*" | "//") factor}"""
        axis = self.factor()
        while self.token in ("*", "//"):
            if self.advance() == "*":
                axis = multiply(axis, self.factor())
            else:
                divisor = self.factor()
                if divisor == 0:
                    self.fail("division by 0")
                axis = divide(axis, divisor)
        return axis

    def factor(self) -> Axis:
        """A number, a name, or an expression in parentheses"""
        if self.token.isdigit():
            return int(self.advance())
        if self.take("("):
            axis = self.expression()
            self.expect(")")
            return axis
        if self.token[:1].isalpha():
            if self.token != self.token.upper():
                self.fail(f"names of axes are upper-case: {self.token.upper()}")
            return variable(self.advance())
        self.fail("expected the length of an axis")
