"""`noeira diff`: what differs between two graphs or plans."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from noeira.commands.support.files import read_dump, read_plan
from noeira.commands.support.terminal import paint
from noeira.commands.support.usage import UsageError
from noeira.report.difference import Difference, difference, plan_difference, without_names

COLOURS = {"+": "green", "-": "red", "@": "cyan"}
GRAPH, PLAN = ".nir", ".plan"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The two files."""
    parser.add_argument("old", metavar="A", help="a graph (.nir) or a plan (.plan)")
    parser.add_argument("new", metavar="B", help="another one; of a plan and a graph, the graphs")
    parser.add_argument(
        "--names", action="store_true", help="of graphs: ignore the names of values, and origins"
    )


def run(args: argparse.Namespace) -> int:
    """Print the differences; 1 if there are any."""
    found = compared(args.old, args.new, args.names)
    for line in str(found).splitlines():
        colour = COLOURS.get(line[:1])
        print(paint(line, colour, sys.stdout) if colour else line)
    return 0 if found.same else 1


def compared(old: str, new: str, names: bool) -> Difference:
    """How two files differ. Raises UsageError for files that are neither graphs nor plans."""
    for path in (old, new):
        if Path(path).suffix not in (GRAPH, PLAN):
            raise UsageError(
                f"{path}: diff takes graphs and plans, {GRAPH} and {PLAN}, as noeira dump writes "
                "them; other texts are for diff -u"
            )
    if {Path(old).suffix, Path(new).suffix} == {PLAN} and not names:
        return plan_difference(read_plan(old), read_plan(new), (old, new))
    compare = without_names if names else difference
    return compare(read_dump(old), read_dump(new), (old, new))
