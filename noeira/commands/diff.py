"""`noeira diff`: what differs between two graphs."""

from __future__ import annotations

import argparse
import sys

from noeira.commands.files import read_dump
from noeira.commands.terminal import paint
from noeira.report.difference import difference, without_names

COLOURS = {"+": "green", "-": "red", "@": "cyan"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The two files."""
    parser.add_argument("old", metavar="A.nir", help="a graph, or a plan")
    parser.add_argument("new", metavar="B.nir", help="another one")
    parser.add_argument(
        "--names", action="store_true", help="ignore the names of values, and origins"
    )


def run(args: argparse.Namespace) -> int:
    """Print the differences; 1 if there are any."""
    compare = without_names if args.names else difference
    found = compare(read_dump(args.old), read_dump(args.new), (args.old, args.new))
    for line in str(found).splitlines():
        colour = COLOURS.get(line[:1])
        print(paint(line, colour, sys.stdout) if colour else line)
    return 0 if found.same else 1
