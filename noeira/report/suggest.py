"""suggest: the fused types a network could be written with, and exactly what each would save."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Unpack

from noeira.errors import FusionError
from noeira.ir.cost import node_cost
from noeira.ir.graph import ComputeGraph, Group, Node
from noeira.ir.text.dump import Dump
from noeira.nn.core.module import Module
from noeira.options import check_names
from noeira.passes.pipeline import resume
from noeira.report.runs import Run, fusible_runs
from noeira.report.served import by_path, run_of, served
from noeira.report.table import plural
from noeira.stages import Stages, StepOptions, stages_of

# Places that are listed of a type that is repeated.
SHOWN = 4
NOTHING = "nothing to suggest: no neighbours are left that one kernel could do"


@dataclass(frozen=True)
class Count:
    """Launches, and the bytes they move, in the forward pass and in the rest of a step."""

    forward_launches: int
    backward_launches: int
    forward_bytes: int
    backward_bytes: int

    @property
    def launches(self) -> int:
        """Launches in all."""
        return self.forward_launches + self.backward_launches

    @property
    def bytes(self) -> int:
        """Bytes in all."""
        return self.forward_bytes + self.backward_bytes

    def __sub__(self, other: Count) -> Count:
        return Count(*(a - b for a, b in zip(values(self), values(other), strict=True)))

    def __str__(self) -> str:
        launches = plural(self.launches, "launch", "launches")
        return (
            f"{launches} ({self.forward_launches} forward, {self.backward_launches} backward)"
            f" and {self.bytes:,} bytes"
            f" ({self.forward_bytes:,} forward, {self.backward_bytes:,} backward)"
        )


def values(count: Count) -> tuple[int, int, int, int]:
    """The four numbers."""
    return (
        count.forward_launches,
        count.backward_launches,
        count.forward_bytes,
        count.backward_bytes,
    )


@dataclass(frozen=True)
class Suggestion:
    """A fused type to write in place of neighbours.

    fused: the type as text, or in a graph the node of it; parts: what is written now; places: for
    each repetition the paths of the parts; launches: how many the parts are now, forward, where the
    fused type is one; saves: in one step, by all repetitions together.
    """

    fused: str
    parts: tuple[str, ...]
    places: tuple[tuple[str, ...], ...]
    launches: int
    saves: Count

    @property
    def hint(self) -> str:
        """`2 launches; write LinearReLU[784, 256] for 1`"""
        return f"{self.launches} launches; write {self.fused} for 1"

    def __str__(self) -> str:
        times = f" × {len(self.places)}" if len(self.places) > 1 else ""
        where = "; ".join(", ".join(paths) for paths in self.places[:SHOWN])
        if len(self.places) > SHOWN:
            where += f"; … and {len(self.places) - SHOWN:,} more"
        return (
            f"{self.fused}{times}\n"
            f"  in place of {', '.join(self.parts)}   at {where}\n"
            f"  {self.hint}\n"
            f"  saves {self.saves}"
        )

    def value(self) -> dict[str, Any]:
        """It as plain JSON values; `path` is where the first of the parts stands first."""
        return {
            "path": self.places[0][0],
            "places": [list(paths) for paths in self.places],
            "wrote": list(self.parts),
            "write": self.fused,
            "launches_saved": self.saves.launches,
            "bytes_saved": self.saves.bytes,
        }


def suggest(net: type[Module] | Module, **options: Unpack[StepOptions]) -> tuple[Suggestion, ...]:
    """The fused type to write for each longest run of neighbours that one kernel can do.

    The options are those of StepOptions (loss None: the forward pass alone). Nothing is changed.
    Raises CompositionError, ShapeError or FusionError.
    """
    # Graphs are the same for every target: this one needs no compiler to be asked.
    check_names(options, "suggest", StepOptions)
    return suggestions(stages_of(net, isa="plain", **options))


def suggestions(stages: Stages) -> tuple[Suggestion, ...]:
    """What could be fused; repetitions of one type are one suggestion."""
    repeated: dict[tuple[str, ...], list[Run]] = {}
    for run in fusible_runs(stages.job.net):
        repeated.setdefault((run.write, *run.wrote), []).append(run)
    before = stages.fused.graph
    found = list[Suggestion]()
    for runs in repeated.values():
        after = with_runs(stages.traced, runs)
        launches = sum(1 for _ in served(before, by_path(runs[:1])))
        if after is None or launches < 2:
            continue
        places = tuple(run.paths for run in runs)
        saves = counted(before) - counted(after)
        found.append(Suggestion(runs[0].write, runs[0].wrote, places, launches, saves))
    return tuple(found)


def report(stages: Stages) -> str:
    """The suggestions as text, and what all of them together come to."""
    found = suggestions(stages)
    if not found:
        return NOTHING
    taken = {suggestion.fused for suggestion in found}
    runs = [run for run in fusible_runs(stages.job.net) if run.write in taken]
    before, after = counted(stages.fused.graph), with_runs(stages.traced, runs)
    assert after is not None
    saved = before - counted(after)
    total = (
        f"in all: {before.launches:,} launches become {before.launches - saved.launches:,}, "
        f"{saved.bytes:,} of {before.bytes:,} bytes are saved"
    )
    return "\n\n".join([*map(str, found), total])


def with_runs(traced: Dump, runs: Sequence[Run]) -> ComputeGraph | None:
    """What the passes give if the runs were written as fused types; None if they refuse it."""
    dump = replace(traced, graph=stamped(traced.graph, runs))
    try:
        return resume(dump)(dump).graph
    except FusionError:
        return None


def stamped(graph: ComputeGraph, runs: Sequence[Run]) -> ComputeGraph:
    """The graph with each run's nodes in a group of its own, as its fused type would trace them."""
    known = by_path(runs)

    def grouped(node: Node) -> Node:
        run = run_of(node.origin, known)
        return replace(node, group=run.paths[0]) if run else node

    kept = tuple(group for group in graph.groups if group.path not in known)
    made = tuple(Group(run.paths[0], repr(run.fused)) for run in runs)
    return replace(graph, groups=(*kept, *made), nodes=tuple(map(grouped, graph.nodes)))


def counted(graph: ComputeGraph) -> Count:
    """Launches and bytes of a graph after its passes."""
    launches, moved = [0, 0], [0, 0]
    for node in graph.launching():
        side = 0 if node.origin.by == "trace" else 1
        cost = node_cost(node)
        launches[side] += 1
        moved[side] += cost.bytes_read + cost.bytes_written
    return Count(*launches, *moved)
