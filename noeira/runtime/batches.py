"""Calls of an entry on arrays of rows: on one batch, or on any number of rows, batch by batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from noeira.ir.plan import OUTPUT, root_of
from noeira.runtime.arguments import checked_batch, checked_samples
from noeira.runtime.store import aligned_zeros

if TYPE_CHECKING:
    import numpy as np

    from noeira.runtime.entry_point import EntryPoint

# So many are copied faster than a new array's address is found out.
COPIED_BYTES = 32 * 1024


def call_on_batch(entry: EntryPoint, given: Sequence[Any], batch: int) -> None:
    """Call an entry on just one batch. Raises ShapeError, DtypeError or DataError."""
    if not entry.takes(given):
        advice = (
            f"this program was compiled for batch={batch}: compile(…, batch=N) for "
            f"others; forward and evaluate take any number"
        )
        given = checked_batch(list(entry.inputs.values()), given, advice)
    entry.bind_inputs(given)
    entry.run()


def call_on_rows(entry: EntryPoint, given: Sequence[Any], batch: int) -> list[np.ndarray]:
    """Call an entry on any number of rows; gives its results. Whole batches are read and written in
    place, the last one is padded. Raises ShapeError, DtypeError or DataError.
    """
    if entry.output_bytes <= COPIED_BYTES and entry.takes(given):
        entry.bind_inputs(given)
        entry.run()
        return [array.copy() for array in entry.outputs()]
    arrays = checked_samples(list(entry.inputs.values()), given)
    try:
        return batch_by_batch(entry, arrays, batch)
    finally:
        entry.bind_own_outputs()


def batch_by_batch(entry: EntryPoint, arrays: Sequence[np.ndarray], batch: int) -> list[np.ndarray]:
    """Call an entry on all rows of checked arrays."""
    import numpy as np

    rows, outputs = len(arrays[0]), entry.graph.outputs
    results = [np.empty((rows, *v.type.shape[1:]), entry.output(v.name).dtype) for v in outputs]
    for start in range(0, rows, batch):
        count = min(batch, rows - start)
        whole = count == batch
        padded = [] if whole else [aligned_zeros(v.type) for v in outputs]
        parts = [array[start : start + count] for array in arrays]
        entry.bind_inputs(parts if whole else [pad(part, batch) for part in parts])
        for index, value in enumerate(outputs):
            room = results[index][start : start + count] if whole else padded[index]
            entry.bind(root_of(OUTPUT, value.name), room)
        entry.run()
        for index, room in enumerate(padded):
            results[index][start:] = room[:count]
    return results


def pad(part: np.ndarray, rows: int) -> np.ndarray:
    """The rows, and zeros up to `rows`."""
    import numpy as np

    room = np.zeros((rows, *part.shape[1:]), part.dtype)
    room[: len(part)] = part
    return room
