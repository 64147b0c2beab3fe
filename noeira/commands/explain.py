"""`noeira explain`: every launch of a training step, its origin, its reason and its cost."""

from __future__ import annotations

import argparse
import sys

from noeira.commands.network import add_model, stages_from
from noeira.commands.terminal import paint
from noeira.report.explain import HINT, explain_stages


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The network, and the form of the answer."""
    add_model(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(args: argparse.Namespace) -> int:
    """Print the table."""
    found = explain_stages(stages_from(args))
    if args.json:
        print(found.json())
        return 0
    for line in str(found).splitlines():
        print(paint(line, "yellow", sys.stdout) if line.lstrip().startswith(HINT) else line)
    return 0
