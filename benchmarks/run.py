"""All benchmarks, or those named, one after the other.

    python benchmarks/run.py [NAME …] [--quick]                 ours alone
    python benchmarks/run.py --peers FOLDER --python PYTHON     beside other frameworks
    python benchmarks/run.py --page docs/performance.md         and put the tables on that page

FOLDER holds scripts called as `NAME_peer.py CONFIG VARIANT` (see processes.py). PYTHON has what
they import and, to compare matrix products, scipy-openblas32 and onednn. Each benchmark also runs
by itself, with more options.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path

from common import Table, common_parser, parsed, show

# Each with what it measures.
BENCHMARKS = {
    "machine": "what the machine can do at best",
    "steps": "training steps and forward passes, called from Python",
    "floors": "where a step's time goes beyond the least it could take",
    "vision": "the same of networks of images, with memory and kinds of kernels",
    "gemm": "matrix products",
    "convolutions": "convolutions and their gradients",
    "elementwise": "activations, optimizers, gathers",
    "rows": "losses, softmax, column sums",
    "updates": "optimizers with clipping, averages, norms of gradients",
    "calls": "the cost of a call from Python",
    "threads": "one thread and more, and a processor that is busy with something else",
    "memory": "what a step takes and allocates",
    "compile": "cold and warm starts",
    "choose": "the rule for matrix products beside a search (only if named)",
}
BY_NAME_ONLY = ("choose",)


def parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = common_parser(__doc__)
    listed = "\n".join(f"{name:12} {what}" for name, what in BENCHMARKS.items())
    parser.add_argument("--page", type=Path, metavar="FILE", help="a page to put the tables on")
    parser.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help=f"by default all but {', '.join(BY_NAME_ONLY)}:\n{listed}",
    )
    return parser


def tables(options: argparse.Namespace, failed: list[str]) -> Iterator[Table]:
    """The tables of the benchmarks as they are done; one that fails is said, left out, and added to
    `failed`.
    """
    words = ["--threads", str(options.threads), *(["--quick"] if options.quick else [])]
    for name in ("peers", "python"):
        value = getattr(options, name)
        words += [f"--{name}", str(value)] if value else []
    page = Page(options.page) if options.page else None
    for name in options.names or [name for name in BENCHMARKS if name not in BY_NAME_ONLY]:
        made = list[Table]()
        try:
            module = import_module(name)
            for table in module.tables(parsed(module.parser(), words)):
                made.append(table)
                yield table
        except (Exception, SystemExit) as error:
            print(f"{name} failed: {type(error).__name__}: {error}\n", file=sys.stderr, flush=True)
            failed.append(name)
        else:
            if page:
                page.put(name, made)


class Page:
    """A Markdown page with places for tables: `<!-- NAME -->`, tables, `<!-- end of NAME -->`."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def put(self, name: str, tables: Sequence[Table]) -> None:
        """Put a benchmark's tables in the place of the old ones, if the page has one for them."""
        start, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->\n"
        before, found, rest = self.path.read_text(encoding="utf-8").partition(start)
        _, closed, after = rest.partition(end)
        if found and closed:
            text = "\n\n".join(table.markdown() for table in tables)
            self.path.write_text(f"{before}{start}\n{text}\n\n{end}{after}", encoding="utf-8")


def main() -> None:
    """Measure and print. The status is 1 if a benchmark failed."""
    options, failed = parsed(parser()), list[str]()
    unknown = [name for name in options.names if name not in BENCHMARKS]
    if unknown:
        raise SystemExit(f"there is no benchmark {unknown[0]}; there are {', '.join(BENCHMARKS)}")
    show(tables(options, failed), options)
    if failed:
        raise SystemExit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
