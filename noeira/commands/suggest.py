"""`noeira suggest`: the fused types a network could be written with, and what each would save."""

from __future__ import annotations

import argparse

from noeira.commands.network import add_model, stages_from
from noeira.report.suggest import report


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The network."""
    add_model(parser)


def run(args: argparse.Namespace) -> int:
    """Print the suggestions; finding none is no failure."""
    print(report(stages_from(args)))
    return 0
