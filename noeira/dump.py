"""NOEIRA_DUMP: every stage of every compile as a numbered file."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from noeira import config
from noeira.disk import replace_file
from noeira.errors import NoeiraError
from noeira.ir.text.dump import Dump

if TYPE_CHECKING:
    from noeira.codegen.source import Source
    from noeira.ir.plan import Plan
    from noeira.passes.pipeline import Watcher


@dataclass(frozen=True)
class Dumper:
    """Writes `folder/<graph>/00_trace.nir`, `01_vjp.nir`, …, `<graph>.plan`, and
    `folder/<program>.c` or `.cu`.
    """

    folder: Path | None
    program: str

    @classmethod
    def start(cls, program: str) -> Dumper:
        """A dumper into NOEIRA_DUMP, if that is set."""
        return cls(config.DUMP.read(), program)

    def watch(self, first: Dump) -> Watcher | None:
        """What a pipeline tells of each pass; the traced graph is written at once."""
        if self.folder is None:
            return None
        place = self.place(first.graph.name)
        write(place / graph_file(0, "trace"), str(first))
        count = iter(range(1, 100))

        def watcher(name: str, dump: Dump) -> None:
            write(place / graph_file(next(count), name), str(dump))

        return watcher

    def place(self, graph: str) -> Path:
        """The folder of a graph's stages."""
        assert self.folder is not None
        return self.folder / re.sub(r"[^\w.]", "_", graph)

    def plan(self, plan: Plan, passes: int) -> None:
        """Write a plan, made after so many passes."""
        if self.folder is not None:
            write(self.place(plan.name) / plan_file(passes + 1), str(plan))

    def source(self, source: Source) -> None:
        """Write a unit."""
        if self.folder is not None:
            write(self.folder / source_name(source), source.text)


def graph_file(number: int, name: str) -> str:
    """`01_vjp.nir`"""
    return f"{number:02}_{name}.nir"


def plan_file(number: int) -> str:
    """`06_plan.plan`"""
    return f"{number:02}_plan.plan"


def source_name(source: Source) -> str:
    """`MLP.c`, `MLP.cu`"""
    return f"{re.sub(r'[^0-9A-Za-z_]', '_', source.name)}.{source.language.ending}"


def stage_files(graphs: Sequence[tuple[str, Dump]], plan: Plan) -> dict[str, str]:
    """The files of an entry's stages, and their texts: a graph after each pass, then the plan."""
    found = {graph_file(i, name): str(dump) for i, (name, dump) in enumerate(graphs)}
    return {**found, plan_file(len(graphs)): str(plan)}


def write(path: Path, text: str) -> None:
    """Write a file, whole or not at all. Raises NoeiraError."""
    try:
        replace_file(path, text.encode())
    except OSError as error:
        raise NoeiraError(f"{path} cannot be written: {error.strerror or error}") from None
