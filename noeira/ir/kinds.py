"""The kinds of ops. `KINDS` is the whole list: what is true of each is said here, and asked of a
node as `node.kind`.
"""

from __future__ import annotations

from dataclasses import dataclass

from noeira.errors import VerifyError


@dataclass(frozen=True)
class Kind:
    """What an op's kernel may join it with.

    element_wise: any number of such ops are one loop; others are anchors, of which each has a loop
    of its own.
    by_rows: what it makes of a row is complete when that is read, so ops that follow may be done
    beside it.
    by_columns: what it makes is complete when all rows are read, and then small enough that what
    follows may be done in the same call.
    once: a kernel has one such op.
    alone: its kernel does nothing else.
    """

    name: str
    element_wise: bool = False
    by_rows: bool = False
    by_columns: bool = False
    once: bool = False
    alone: bool = False


KINDS = {
    kind.name: kind
    for kind in (
        Kind("map", element_wise=True),
        Kind("contraction", once=True),
        Kind("window", once=True),
        Kind("column", by_columns=True),
        Kind("row", by_rows=True),
        Kind("alone", alone=True),
    )
}


def kind_called(name: str, op: str) -> Kind:
    """The kind of this name, of an op. Raises VerifyError if there is no such kind."""
    if name not in KINDS:
        raise VerifyError(f"{op}: there is no kind {name!r}; there are {', '.join(KINDS)}")
    return KINDS[name]
