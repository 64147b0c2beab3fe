"""`noeira cache`: what the cache of built programs holds, and emptying it."""

from __future__ import annotations

import argparse
import dataclasses
import json

from noeira.runtime.build.cache import Cache, Stats

NOTES = "(facts for a quick start: what the compiler can do, which build a network led to)"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the actions `show` and `clear`."""
    parser.set_defaults(help=parser.print_help)
    actions = parser.add_subparsers(dest="action")
    show = actions.add_parser("show", help="print where the cache is and what it holds")
    show.add_argument("--json", action="store_true", help="print one JSON object")
    actions.add_parser("clear", help="remove all built programs; edited sources are kept")


def run(args: argparse.Namespace) -> int:
    """Does what was asked and gives the exit code: 1 if something could not be removed."""
    if args.action is None:
        args.help()
        return 0
    cache = Cache()
    if args.action == "show":
        stats = cache.stats()
        print(as_json(stats) if args.json else as_text(stats))
        return 0
    removed = cache.clear()
    left = cache.stats().entries
    print(f"removed {count(removed, 'program')} from {cache.folder}")
    if left:
        print(f"{count(left, 'program')} could not be removed: is the folder yours to write?")
    return 1 if left else 0


def as_json(stats: Stats) -> str:
    """The fields of Stats as one object; sizes in bytes."""
    return json.dumps({**dataclasses.asdict(stats), "folder": str(stats.folder)})


def as_text(stats: Stats) -> str:
    """One line a fact."""
    size = f"{megabytes(stats.bytes)} of at most {megabytes(stats.limit_bytes)}"
    rows = {
        "folder": str(stats.folder) + ("" if stats.writable else "   (cannot be written)"),
        "programs": f"{stats.entries}, {size}",
        "failed builds": str(stats.failed),
        "edited sources": str(stats.edits),
        "notes": f"{stats.notes}   {NOTES}",
    }
    return "\n".join(f"{name:16}{text}" for name, text in rows.items())


def count(number: int, noun: str) -> str:
    """`1 program`, `2 programs`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def megabytes(size: int) -> str:
    """A size in bytes, in MB of 2²⁰ bytes as in NOEIRA_CACHE_MEGABYTES."""
    return f"{size / 2**20:.1f} MB" if size % 2**20 else f"{size >> 20} MB"
