"""`noeira explain`: every launch of a training step, its origin, its reason and its cost."""

from __future__ import annotations

import argparse
import sys

from noeira.commands.support.options import add_model, stages_from
from noeira.commands.support.terminal import paint, width_of
from noeira.commands.support.usage import UsageError
from noeira.report.explain import explain_stages
from noeira.report.launches import HINT


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The network, and the form of the answer."""
    add_model(parser, "target", "isa", "arch", "choices")
    parser.add_argument(
        "--resources",
        action="store_true",
        help="also what each launch takes of a GPU: compiles, for --target cuda",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(args: argparse.Namespace) -> int:
    """Print the table."""
    stages = stages_from(args)
    if args.resources and stages.target.language != "cuda":
        raise UsageError("--resources is for --target cuda: a CPU has no such limits")
    found = explain_stages(stages, args.resources)
    if args.json:
        print(found.json())
        return 0
    for line in found.text(width_of(sys.stdout)).splitlines():
        print(paint(line, "yellow", sys.stdout) if line.lstrip().startswith(HINT) else line)
    return 0
