"""`.nir` files: a graph, the passes that were run on it, and those still to run."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from noeira.ir.graph import ComputeGraph
from noeira.ir.text.lexer import QUOTED, Line, expected_error
from noeira.ir.text.parser import parse_graph
from noeira.ir.text.printer import graph_text

VERSION = "// noeira-ir 1"
PROGRESS = re.compile(r"// done: (.*?)   to do: (.*)")
PASSES = re.compile(rf'(?:[^,{{"]|{QUOTED}|\{{(?:[^}}"]|{QUOTED})*\}})+')


@dataclass(frozen=True)
class Dump:
    """A graph in the middle of a compile: the passes that were run, and those still to run, as
    text.
    """

    graph: ComputeGraph
    done: tuple[str, ...] = ()
    todo: tuple[str, ...] = ()

    def __str__(self) -> str:
        progress = f"// done: {', '.join(self.done) or '-'}   to do: {', '.join(self.todo) or '-'}"
        return f"{VERSION}\n{progress}\n{graph_text(self.graph)}"


def split_passes(text: str) -> tuple[str, ...]:
    """`vjp, update{lr = 0.1, …}` as its items; commas inside braces do not separate."""
    if text.strip() == "-":
        return ()
    return tuple(item.strip() for item in PASSES.findall(text))


def parse_dump(text: str) -> Dump:
    """A `.nir` file, not verified. Raises ParseError with the line and what was expected."""
    version, progress, rest = (*text.split("\n", 2), "", "")[:3]
    if version.strip() != VERSION:
        raise expected_error(version, 1, VERSION)
    found = PROGRESS.fullmatch(progress.strip())
    if not found:
        raise expected_error(progress, 2, "// done: PASSES   to do: PASSES")
    return Dump(parse_graph(rest, first=3), split_passes(found[1]), split_passes(found[2]))


def parse_fields(text: str) -> tuple[str, dict[str, Any]]:
    """`name{field = literal, …}` as its name and fields. Raises ParseError."""
    line = Line(text, 2)
    name, fields = line.take("word", "the name of a pass"), line.fields()
    line.end()
    return name, fields
