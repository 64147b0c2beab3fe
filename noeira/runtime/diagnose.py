"""Finds where numbers stopped being finite, by running the step again with the reference."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from noeira.errors import NotFiniteError
from noeira.ir.graph import Node
from noeira.ir.interpret import interpret
from noeira.ir.states import STEP

if TYPE_CHECKING:
    import numpy as np

    from noeira.runtime.entry_point import EntryPoint
    from noeira.runtime.program import Program


class Found(Exception):
    """Ends the search."""


def not_finite(program: Program, entry: EntryPoint) -> NotFiniteError:
    """The error for a step whose loss was not finite: names the first parameter, input or node that
    is not.
    """
    step = int(program.store.current(STEP))
    head = f"the loss of step {step + 1} is not finite"
    tail = "parameters, moments and counters are as they were before it"
    for name in program.params:
        if not_all_finite(program.params[name]):
            return NotFiniteError(f"{head}: parameter {name} is not finite; {tail}")
    node = first_bad_node(entry)
    if node is None:
        return NotFiniteError(f"{head}; {tail}")
    where = f"{node.op.name} of {node.origin.path}: {node.origin.type}"
    if node.origin.by == "resident":
        return NotFiniteError(
            f"{head}: the data {node.outputs[0]} holds values that are not finite; {tail}"
        )
    return NotFiniteError(
        f"{head}: the first result that is not is {node.outputs[0]}, the {where}; {tail}"
    )


def not_all_finite(array: np.ndarray) -> bool:
    """Whether an array of floats holds NaN or infinity."""
    import numpy as np

    return array.dtype.kind == "f" and not bool(np.isfinite(array).all())


def first_bad_node(entry: EntryPoint) -> Node | None:
    """The first plain node of the step with a result that is not finite, on the arrays as they are
    now.
    """
    bad: list[Node] = []

    def watch(node: Node, results: tuple[Any, ...]) -> None:
        import numpy as np

        if any(not_all_finite(np.asarray(r)) for r in results):
            bad.append(node)
            raise Found

    with contextlib.suppress(Found):
        interpret(entry.graph, entry.given(), watch)
    return bad[0] if bad else None
