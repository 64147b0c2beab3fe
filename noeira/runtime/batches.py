"""Calls of an entry on arrays of rows: on one batch, or on any number of rows, batch by batch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from noeira.ir.graph import Input, Value
from noeira.ir.plan import OUTPUT, root_of
from noeira.ir.states import LOSS
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
        given = checked_batch(list(entry.inputs.values()), given, compiled_for(batch))
    entry.bind_inputs(given)
    entry.run()


def compiled_for(batch: int) -> str:
    """What messages say of another number of rows than a batch has."""
    return (
        f"this program was compiled for batch={batch}: compile(…, batch=N) for "
        f"others; forward and evaluate take any number"
    )


def with_rows(declared: Input, rows: int) -> Input:
    """An input with another number of rows."""
    type = replace(declared.value.type, shape=(rows, *declared.value.type.shape[1:]))
    return replace(declared, value=Value(declared.value.name, type))


def call_in_parts(
    entries: Sequence[EntryPoint], given: Sequence[Any], batch: int, rows: np.ndarray
) -> dict[str, Any]:
    """Call entries in turn, each on an equal part of a batch; gives the results of the last by
    their names, the loss as the mean of all. Raises ShapeError, DtypeError or DataError.

    rows: the state that counts what the parts have gathered. The first part whose loss is not
    finite ends the step, in which nothing changes.
    """
    import numpy as np

    last, part, losses = entries[-1], batch // len(entries), list[float]()
    whole = [with_rows(declared, batch) for declared in last.inputs.values()]
    arrays = checked_batch(whole, given, compiled_for(batch))
    try:
        for index, entry in enumerate(entries):
            entry.bind_inputs([array[index * part : (index + 1) * part] for array in arrays])
            entry.run()
            losses.append(float(entry.output(LOSS)))
            if not math.isfinite(losses[-1]):
                break
    finally:
        # A step that was not ok leaves them, and so does one that Ctrl-C ends.
        rows[...] = 0
    results = {
        v.name: array.copy() for v, array in zip(last.graph.outputs, last.outputs(), strict=True)
    }
    loss = results[LOSS]
    if len(losses) < len(entries):
        results = {name: np.full_like(array, math.nan) for name, array in results.items()}
    return results | {LOSS: np.asarray(sum(losses) / len(losses), loss.dtype)}


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
