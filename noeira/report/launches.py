"""The launches of an explanation as lines: a table, or where that is too wide what does not fit
beside their numbers under each.
"""

from __future__ import annotations

from collections.abc import Iterator
from textwrap import wrap
from typing import TYPE_CHECKING

from noeira.report.resources import LAUNCH_HEAD, launch_cells
from noeira.report.table import table

if TYPE_CHECKING:
    from noeira.report.explain import ExplainedLaunch, Explanation

# Of a launch's names the first; the others stand under these where there is no room.
SHORT = ("#", "kernel")
NAMES = (*SHORT, "op", "path")
COSTS = ("FLOPs", "bytes", "FLOPs/byte")
# What decides where no table does.
RULE = "rule"
# Marks the line under launches that could be fewer.
HINT = "└ "
IN_ALL = "in all"


def launch_lines(found: Explanation, width: int) -> list[str]:
    """The head, the launches, and what they cost in all; in lines of at most `width` characters
    where that can be, 0 for any number.
    """
    lines = wide_lines(found)
    return lines if not width or max(map(len, lines)) <= width else narrow_lines(found, width)


def wide_lines(found: Explanation) -> list[str]:
    """A line for each launch, and one under it for its stages and for a hint."""
    more = LAUNCH_HEAD if any(launch.uses for launch in found.launches) else ()
    rows = [
        (*launch.names, reason(launch), *costs(launch), *launch_cells(launch.uses)[: len(more)])
        for launch in found.launches
    ]
    rows.append(("", "", "", "", IN_ALL, *costs(found), *("" for _ in more)))
    head = (*NAMES, "why", *COSTS, *more)
    first, *lines, total = table(head, rows, (0, *range(head.index(COSTS[0]), len(head))))
    shown = [first]
    for launch, line in zip(found.launches, lines, strict=True):
        shown.append(line)
        shown += (f"{' ' * line.index(launch.kernel)}{HINT}{text}" for text in below(launch))
    return [*shown, total]


def narrow_lines(found: Explanation, width: int) -> list[str]:
    """Under the numbers of each launch its path and reason, what it takes of a GPU, and a hint."""
    rows = [(*launch.names[: len(SHORT)], *costs(launch)) for launch in found.launches]
    rows.append(("", IN_ALL, *costs(found)))
    head = (*SHORT, *COSTS)
    first, *lines, total = table(head, rows, (0, *range(len(SHORT), len(head))))
    shown = [first]
    for launch, line in zip(found.launches, lines, strict=True):
        shown.append(line)
        indent = " " * line.index(launch.kernel)
        for text in beneath(launch):
            shown += wrap(
                text,
                width,
                initial_indent=indent,
                subsequent_indent=f"{indent}  ",
                break_long_words=False,
                break_on_hyphens=False,
            )
    return [*shown, total]


def beneath(launch: ExplainedLaunch) -> Iterator[str]:
    """What stands under a launch."""
    yield f"{launch.path}: {reason(launch)}"
    if launch.uses:
        cells = zip(LAUNCH_HEAD, launch_cells(launch.uses), strict=True)
        yield ", ".join(f"{name} {cell}" for name, cell in cells)
    yield from (f"{HINT}{text}" for text in below(launch))


def below(launch: ExplainedLaunch) -> Iterator[str]:
    """What stands under a launch however wide lines may be: its algorithm, if there are several,
    and its stages; and a hint.
    """
    how = " and ".join(launch.algorithms)
    if len(launch.stages) > 1:
        stages = f"{len(launch.stages)} stages: {', '.join(launch.stages)}"
        how = f"{how} in {stages}" if how else stages
    if how:
        yield how
    if launch.hint:
        yield launch.hint


def reason(launch: ExplainedLaunch) -> str:
    """Why there is a launch, and the table that chose its stages."""
    why = launch.why
    if launch.chosen_by not in ("", RULE):
        why += f"   (from {launch.chosen_by})"
    return why


def costs(found: ExplainedLaunch | Explanation) -> tuple[str, str, str]:
    """The cells under COSTS, of a launch or of all."""
    return f"{found.flops:,}", f"{found.bytes:,}", f"{found.intensity:.2f}"
