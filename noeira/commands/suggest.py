"""`noeira suggest`: the fused types a network could be written with, and what each would save."""

from __future__ import annotations

import argparse
import json

from noeira.commands.support.options import add_model, stages_from
from noeira.report.suggest import report, suggestions


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The network, and the form of the answer."""
    add_model(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(args: argparse.Namespace) -> int:
    """Print the suggestions; finding none is no failure."""
    stages = stages_from(args, isa="plain")
    if args.json:
        found = [suggestion.value() for suggestion in suggestions(stages)]
        print(json.dumps({"suggestions": found}, indent=1))
    else:
        print(report(stages))
    return 0
