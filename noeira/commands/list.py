"""`noeira list`: the layers, losses, optimizers and ops that there are, with their formulas."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict

from noeira.commands.support.network import add_imports, run_imports
from noeira.commands.support.usage import UsageError, no_such
from noeira.report.vocabulary import KINDS, Word, vocabulary, word_of
from noeira.training import EarlyStopping


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What is listed."""
    parser.add_argument(
        "name",
        metavar="WHAT",
        nargs="?",
        help=f"{', '.join(KINDS)}, or a name, of which everything is said",
    )
    add_imports(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(args: argparse.Namespace) -> int:
    """Print the list, or all that is known of a name."""
    run_imports(args)
    words = chosen([*vocabulary(), word_of(EarlyStopping, "training")], args.name)
    if args.json:
        print(json.dumps({"words": [asdict(word) for word in words]}, indent=1))
    elif args.name is None or args.name in KINDS:
        kinds = KINDS if args.name is None else [args.name]
        print("\n\n".join(section(kind, words) for kind in kinds))
    else:
        print("\n\n".join(map(str, words)))
    return 0


def chosen(words: Sequence[Word], name: str | None) -> list[Word]:
    """The words of a kind, or of a name in any case. Raises UsageError if there is none."""
    if name is None:
        return list(words)
    found = [word for word in words if word.kind == name or word.name.lower() == name.lower()]
    if not found:
        raise UsageError(no_such("type or op", name, [*KINDS, *(word.name for word in words)]))
    return found


def section(kind: str, words: Sequence[Word]) -> str:
    """A line for each word of a kind."""
    own = [word for word in words if word.kind == kind]
    width = max(len(word.written) for word in own)
    lines = [f"  {word.written.ljust(width)}  {word.formula}" for word in own]
    return "\n".join([f"{kind}: {KINDS[kind]}", *lines])
