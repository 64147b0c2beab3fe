"""Runs a graph with NumPy, node by node: the reference of every target, and the finder of the first
bad node.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from noeira.errors import VerifyError
from noeira.ir.arrays import dtype_name, rounded, widened
from noeira.ir.graph import ComputeGraph, Node
from noeira.ir.orders import member_of
from noeira.ir.types import ROUNDED, TensorType

if TYPE_CHECKING:
    import numpy as np


def interpret(
    graph: ComputeGraph,
    given: Mapping[str, np.ndarray],
    watch: Callable[[Node, tuple[np.ndarray, ...]], None] | None = None,
) -> dict[str, np.ndarray]:
    """Every value of the graph by name, bodies included.

    `given` holds inputs and states (flat ones flat). `watch` sees each plain node with its results.
    Raises VerifyError if a reference gives something else than the shape rule says.
    """
    import numpy as np

    values = dict(given)
    for state in graph.states:
        for value, member in graph.members(state):
            values[value.name] = member_of(values[state.value.name], member)
    # Overflow and invalid operations give infinities and NaN, as they do in a kernel, and no
    # warnings.
    with np.errstate(all="ignore"):
        for part in (part for node in graph.nodes for part in node.parts):
            try:
                results = results_of(part, [values[v.name] for v in part.inputs])
            except Exception as error:
                error.add_note(f"while running {part}")
                raise
            values.update(zip([v.name for v in part.outputs], results, strict=True))
            if watch:
                watch(part, results)
    return values


def results_of(node: Node, arrays: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
    """What a plain node gives by its reference: 16-bit floats are computed in f32, and the results
    rounded to what they are stored as. Raises VerifyError if that is not what the shape rule says.
    """
    results = node.op.reference(node.attrs, *node.arguments([*map(widened, arrays)]))
    if isinstance(results, tuple) and len(results) == len(node.outputs):
        pairs = zip(results, (v.type.dtype for v in node.outputs), strict=True)
        results = tuple(rounded(r, dtype) if dtype in ROUNDED else r for r, dtype in pairs)
    check_results(node, results)
    return results


def check_results(node: Node, results: Any) -> None:
    """Raises VerifyError if a reference does not give what the shape rule says."""
    import numpy as np

    if not isinstance(results, tuple) or len(results) != len(node.outputs):
        count = len(node.outputs)
        shown = f"{len(results)}" if isinstance(results, tuple) else f"a {type(results).__name__}"
        raise VerifyError(
            f"reference of {node.op.name} must give a tuple of {count} arrays, not {shown}"
        )
    for value, result in zip(node.outputs, results, strict=True):
        array = np.asarray(result)
        if array.shape != value.type.shape or dtype_name(array.dtype) != value.type.dtype:
            got = TensorType(dtype_name(array.dtype), array.shape)
            said = TensorType(value.type.dtype, value.type.shape)
            raise VerifyError(f"{node.op.name}: infer says {said}, but reference gave {got}")
