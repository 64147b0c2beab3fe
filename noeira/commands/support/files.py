"""Files of every stage, read back: what `noeira dump` wrote, perhaps edited since.

Damage is reported in one line: the file, the line in it, and what was expected there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from noeira.codegen.embedded import SYMBOL, listed_symbols, plans_text, unit_name
from noeira.codegen.language import CUDA, language_of
from noeira.codegen.source import Source
from noeira.codegen.targets import target_named
from noeira.commands.support.network import near
from noeira.commands.support.usage import UsageError
from noeira.errors import NoeiraError, ParseError, VerifyError
from noeira.ir.graph import ComputeGraph
from noeira.ir.plan import VERSION as PLAN_VERSION
from noeira.ir.plan import Plan
from noeira.ir.random import Distribution
from noeira.ir.text.dump import Dump, parse_dump
from noeira.ir.verify import verify
from noeira.passes.pipeline import resume
from noeira.planning.check import checked_plan, checked_plans

T = TypeVar("T")

# The offending line is shown up to here.
SHOWN = 80


def read_text(path: str) -> str:
    """The text of a file. Raises NoeiraError if there is none."""
    try:
        return Path(path).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise ParseError(f"{path}, line 1: expected text, got bytes that are no UTF-8") from None
    except OSError as error:
        raise unreadable(path, error) from None


def unreadable(path: str, error: OSError) -> NoeiraError:
    """The error for a file that cannot be read."""
    if isinstance(error, FileNotFoundError):
        return UsageError(f"there is no file {path}{near(Path(path))}")
    return NoeiraError(f"{path} cannot be read: {error.strerror or error}")


@contextmanager
def one_line(path: str, text: str) -> Iterator[None]:
    """What is wrong with a file becomes one line of message."""
    try:
        yield
    except ParseError as error:
        first, *shown = str(error).splitlines()
        last = max(len(text.splitlines()), 1)
        where = first if first.startswith("line ") else f"line {last}: {first}"
        quoted = f"   in: {shown[0].strip()[:SHOWN]}" if shown else ""
        raise ParseError(f"{path}, {where}{quoted}") from error
    except VerifyError as error:
        raise VerifyError(f"{path}: {error}") from error


def read_with(path: str, parse: Callable[[str], T]) -> T:
    """What `parse` makes of a file."""
    text = read_text(path)
    with one_line(path, text):
        return parse(text)


def read_dump(path: str) -> Dump:
    """A graph from a `.nir` file, or the one of a `.plan`, verified."""
    if path.endswith(".plan"):
        return Dump(read_plan(path).graph)
    return read_with(path, dump_from)


def dump_from(text: str) -> Dump:
    """A graph whose passes exist and whose initial values can be drawn."""
    dump = parse_dump(text)
    resume(dump)
    check_initials(dump.graph, text)
    verify(dump.graph)
    return dump


def read_plan(path: str) -> Plan:
    """A plan, verified: no place lies outside its memory."""
    return read_with(path, plan_from)


def plan_from(text: str) -> Plan:
    """A plan that can be run."""
    plan = checked_plan(text, target_named)
    check_initials(plan.graph, text)
    return plan


def check_initials(graph: ComputeGraph, text: str) -> None:
    """Raises ParseError, with the line, for an initial value that is no distribution."""
    for initial in (initial for state in graph.states for initial in state.initial):
        try:
            Distribution.parse(initial)
        except ParseError as error:
            lines = enumerate(text.splitlines(), 1)
            number = next((n for n, line in lines if line.rstrip().endswith(f"= {initial}")), 1)
            raise ParseError(f"line {number}: {error}") from None


def unit_source(path: str) -> Source:
    """A unit of C or CUDA as it stands, with the plans that it carries. Raises ParseError if it has
    none, or its launches are not theirs.
    """
    text = read_text(path)
    with one_line(path, text):
        embedded = plans_text(text)
    plans = tuple(plans_in_text(f"{path}: {SYMBOL}", embedded))
    language = language_of(plans[0].target)
    with one_line(path, text):
        symbols = listed_symbols(text, plans) if language is CUDA else ()
    return Source(language, unit_name(text), text, embedded, None, plans, symbols)


def plans_in_text(path: str, text: str) -> list[Plan]:
    """The plans of a unit, from their text."""
    if not text.startswith(PLAN_VERSION):
        raise ParseError(f"{path}, line 1: expected {PLAN_VERSION!r}, got {text[:SHOWN]!r}")
    with one_line(path, text):
        return checked_plans(text, target_named)
