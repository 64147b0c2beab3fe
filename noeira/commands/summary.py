"""`noeira summary`: parameters, FLOPs and memory of a network, without allocating it."""

from __future__ import annotations

import argparse

from noeira.commands.support.options import add_model, stages_from
from noeira.report.summary import summary_of


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The network, and the form of the answer."""
    add_model(parser, "target", "isa", "arch", "choices")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(args: argparse.Namespace) -> int:
    """Print the summary."""
    found = summary_of(stages_from(args))
    print(found.json() if args.json else found)
    return 0
