"""A table of tuned choices: for a problem, by its shapes and target, the stages to run it in.

Its text is one line a problem, and can be written by hand; what follows a # is a comment:

    // noeira-choices 1
    # made by noeira tune for c avx512, 2 threads

    gemm f32[100, 784] @ f32[784, 256] for c avx512: gemm{row_tiles = 10}   # 52 µs, by rule 55 µs

Nothing in it depends on names, so one table serves all programs in which a problem occurs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from noeira.errors import ParseError
from noeira.ir.plan import Stage
from noeira.ir.text.lexer import Line, expected_error, literal, parsing, uncommented
from noeira.ir.types import TensorType

VERSION = "// noeira-choices 1"
TRANSPOSE = "transpose"
PROBLEM = "a problem such as gemm f32[100, 784] @ f32[784, 256] for c avx512: …"


@dataclass(frozen=True)
class Factor:
    """An operand of a problem: its type as it is stored, and whether it is read transposed."""

    type: TensorType
    transposed: bool = False

    def __str__(self) -> str:
        return f"{TRANSPOSE}({self.type})" if self.transposed else str(self.type)


@dataclass(frozen=True)
class Problem:
    """What a choice depends on: the kind of kernel, its operands, the target, and what else of the
    op's attributes its work depends on, by name, as `attr_items` has them: a stride, say.
    """

    kind: str
    factors: tuple[Factor, ...]
    target: str
    options: tuple[tuple[str, Any], ...] = ()

    def __post_init__(self) -> None:
        """Whoever writes a table may write them in any order."""
        object.__setattr__(self, "options", tuple(sorted(self.options)))

    @property
    def product(self) -> str:
        """Without the target: `gemm f32[100, 784] @ f32[784, 256]`, `conv … {stride = 2}`."""
        options = ", ".join(f"{name} = {literal(value)}" for name, value in self.options)
        factors = " @ ".join(map(str, self.factors))
        return f"{self.kind} {factors}{f' {{{options}}}' if options else ''}"

    @property
    def order(self) -> tuple[object, ...]:
        """What tables are sorted by: target and kind by name, operands by their sizes, options."""
        shapes = tuple((factor.type.shape, str(factor)) for factor in self.factors)
        return (self.target, self.kind, shapes, self.product)

    def __str__(self) -> str:
        return f"{self.product} for {self.target}"


# What refuses stages that do not fit a problem, by raising a NoeiraError.
Check = Callable[[Problem, tuple[Stage, ...]], object]


@dataclass(frozen=True)
class Row:
    """The stages for one problem. note: the comment behind them; above: those over the line."""

    problem: Problem
    stages: tuple[Stage, ...]
    note: str = ""
    above: tuple[str, ...] = ()

    @property
    def decision(self) -> str:
        """The line without comments: what a program depends on."""
        return f"{self.problem}: {' '.join(map(str, self.stages))}"

    def __str__(self) -> str:
        line = f"{self.decision}   # {self.note}" if self.note else self.decision
        return "\n".join([*map(comment_text, self.above), line])


@dataclass(frozen=True)
class Choices:
    """A table. head, foot: the comments at its top and end; name: what messages call it, no part of
    its text.
    """

    rows: tuple[Row, ...] = ()
    head: tuple[str, ...] = ()
    foot: tuple[str, ...] = ()
    name: str = field(default="", compare=False)

    @cached_property
    def by_problem(self) -> dict[Problem, Row]:
        """The rows by what they are for."""
        return {row.problem: row for row in self.rows}

    def find(self, problem: Problem) -> Row | None:
        """The row of a problem, if there is one."""
        return self.by_problem.get(problem)

    @property
    def decisions(self) -> str:
        """The rows without comments, in a fixed order: what belongs in the key of a cache."""
        return "\n".join(row.decision for row in in_order(self.rows))

    def merged(
        self, rows: Iterable[Row], done: Iterable[Problem] = (), head: tuple[str, ...] = ()
    ) -> Choices:
        """This table with `rows` in place of its own for the same problems and for those `done`,
        in order; `head` is added where it is not there yet. Comments over a replaced row stay.
        """
        new = {row.problem: row for row in rows}
        gone = {*new, *done}
        kept = [row for row in self.rows if row.problem not in gone]
        for problem, row in new.items():
            old = self.find(problem)
            above = old.above if old is not None and not row.above else row.above
            kept.append(Row(problem, row.stages, row.note, above))
        heads = tuple(dict.fromkeys((*self.head, *head)))
        return Choices(tuple(in_order(kept)), heads, self.foot, self.name)

    def __str__(self) -> str:
        head, foot = (map(comment_text, comments) for comments in (self.head, self.foot))
        return "\n".join([VERSION, *head, "", *map(str, self.rows), *foot, ""])


NO_CHOICES = Choices()


def in_order(rows: Iterable[Row]) -> list[Row]:
    """Rows sorted by their problems."""
    return sorted(rows, key=lambda row: row.problem.order)


def comment_text(text: str) -> str:
    """A comment as a line."""
    return f"# {text}".rstrip()


def parse_choices(text: str, check: Check, name: str = "") -> Choices:
    """The table that a text says, each row accepted by `check`.

    Raises ParseError with the line and what was expected, or why the stages do not fit.
    """
    lines = text.split("\n")
    if lines[0].strip() != VERSION:
        raise expected_error(lines[0], 1, VERSION)
    head, rest = leading_comments(lines)
    rows = dict[Problem, Row]()
    places = dict[Problem, int]()
    foot: tuple[str, ...] = ()
    for number, line, note, above in statements(rest, len(lines) - len(rest) + 1):
        if not line:
            foot = above
            break
        row = parse_row(Line(line, number), note, above)
        if row.problem in rows:
            first = places[row.problem]
            raise ParseError(f"line {number}: line {first} is for the same problem\n    {line}")
        parsing(Line(line, number), check, row.problem, row.stages)
        rows[row.problem], places[row.problem] = row, number
    return Choices(tuple(rows.values()), tuple(head), foot, name)


def leading_comments(lines: list[str]) -> tuple[list[str], list[str]]:
    """The comments right under the first line, and the lines after them."""
    head, rest = list[str](), lines[1:]
    while rest and rest[0].lstrip().startswith("#"):
        head.append(rest.pop(0).strip().lstrip("#").strip())
    return head, rest


def statements(lines: list[str], first: int) -> Iterator[tuple[int, str, str, tuple[str, ...]]]:
    """The lines that say something: number, text, the comment behind it, and those over it; at the
    end an empty one with the comments that are left.
    """
    above = list[str]()
    for number, line in enumerate(lines, first):
        bare = uncommented(line)
        comment = line[len(bare) :].lstrip("#").strip()
        if bare.strip():
            yield number, bare.rstrip(), comment, tuple(above)
            above = []
        elif bare != line:
            above.append(comment)
    yield len(lines) + first, "", "", tuple(above)


def parse_row(line: Line, note: str, above: tuple[str, ...]) -> Row:
    """`gemm f32[100, 784] @ f32[784, 256] for c avx512: gemm{row_tiles = 10}`"""
    kind = line.take("word", PROBLEM)
    factors = [parse_factor(line)]
    while line.accept("@"):
        factors.append(parse_factor(line))
    options = tuple(line.fields().items())
    line.expect("for")
    target = [line.take("word", "the name of a target such as c avx512")]
    while not line.accept(":"):
        target.append(line.take("word", "the name of a target, or :"))
    stages = list[Stage]()
    while line.more() or not stages:
        name = line.take("word", "a stage such as gemm{row_tiles = 10}")
        stages.append(Stage(name, tuple(line.fields().items())))
    problem = Problem(kind, tuple(factors), " ".join(target), options)
    return Row(problem, tuple(stages), note, above)


def parse_factor(line: Line) -> Factor:
    """`f32[784, 256]`, `transpose(f32[256, 784])`"""
    if not line.accept(TRANSPOSE):
        return Factor(line.type({}))
    line.expect("(")
    type = line.type({})
    line.expect(")")
    return Factor(type, transposed=True)
