"""Says where numbers stopped being finite, by running the step again with the reference."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from noeira.errors import NotFiniteError
from noeira.ir.arrays import is_float
from noeira.ir.graph import Node
from noeira.ir.interpret import interpret
from noeira.ir.states import LOSS, TICK
from noeira.runtime.arguments import place

if TYPE_CHECKING:
    import numpy as np

    from noeira.runtime.entry_point import EntryPoint
    from noeira.runtime.program import Program


class Found(Exception):
    """Ends the search."""


def not_finite(program: Program, entry: EntryPoint, tick: int) -> NotFiniteError:
    """The error for a step whose loss, or gradient norm, was not finite: names the first parameter,
    element of the data or node that is not.

    tick: what the step had for %tick, from which its random numbers followed.
    """
    what = "gradient norm" if math.isfinite(entry.output(LOSS)) else "loss"
    head = f"the {what} of step {program.updates + 1} is not finite"
    tail = "parameters, moments and counters are as they were before it"
    for name in program.params:
        if first_not_finite(program.params[name]) is not None:
            return NotFiniteError(f"{head}: parameter {name} is not finite; {tail}")
    found = first_bad_node(entry, tick)
    if found is None:
        return NotFiniteError(f"{head}; {tail}")
    node, result = found
    if node.origin.by == "resident":
        return NotFiniteError(f"{head}: {bad_element(node, result, entry)}; {tail}")
    where = f"{node.op.name} of {node.origin.path}: {node.origin.type}"
    return NotFiniteError(
        f"{head}: the first result that is not is {node.outputs[0]}, the {where}; {tail}"
    )


def bad_element(node: Node, rows: np.ndarray, entry: EntryPoint) -> str:
    """Which element of the loaded data is not finite, of the rows that a node has taken from it:
    `x[17, 3] is nan`.
    """
    given = entry.given()
    order, cursor = (given[value.name] for value in node.inputs[1:])
    where = first_not_finite(rows)
    assert where is not None
    sample = order[(int(cursor) + where[0]) % len(order)]
    return f"{node.outputs[0].name}[{place((sample, *where[1:]))}] is {rows[where]}"


def first_not_finite(array: np.ndarray) -> Sequence[Any] | None:
    """The index of the first NaN or infinity; None if there is none."""
    import numpy as np

    if not is_float(array) or bool(np.isfinite(array).all()):
        return None
    return tuple(np.argwhere(~np.isfinite(array))[0])


def first_bad_node(entry: EntryPoint, tick: int) -> tuple[Node, np.ndarray] | None:
    """The first plain node of the step with a result that is not finite, and that result, on the
    arrays as they are now, but for %tick, which has gone on since.
    """
    import numpy as np

    bad: list[tuple[Node, np.ndarray]] = []

    def watch(node: Node, results: tuple[Any, ...]) -> None:
        for result in map(np.asarray, results):
            if first_not_finite(result) is not None:
                bad.append((node, result))
                raise Found

    with contextlib.suppress(Found):
        interpret(entry.graph, entry.given() | {TICK: np.asarray(tick, np.int64)}, watch)
    return bad[0] if bad else None
