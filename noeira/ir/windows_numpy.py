"""Windows over images in NumPy: what the references of their ops are made of. Channels are last."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from math import prod

import numpy as np

from noeira.ir.windows import Axes, WindowAxis


def cells_of(axis: WindowAxis, window: int, position: int) -> tuple[slice, ...]:
    """The place of a window's cells along the axis of that position."""
    cells = axis.cells(window)
    return (*(slice(None),) * position, slice(cells.start, cells.stop, cells.step))


def summed(axes: Axes, x: np.ndarray) -> np.ndarray:
    """The sum of each window, axis by axis."""
    for position, axis in enumerate(axes, 1):
        parts = [x[cells_of(axis, o, position)].sum(position) for o in range(axis.out)]
        x = np.stack(parts, position)
    return x


def spread(axes: Axes, d: np.ndarray) -> np.ndarray:
    """The adjoint of `summed`: each cell has the sum of its windows' elements."""
    for position, axis in enumerate(axes, 1):
        made = np.zeros((*d.shape[:position], axis.size, *d.shape[position + 1 :]), d.dtype)
        for o in range(axis.out):
            made[cells_of(axis, o, position)] += np.take(d, [o], position)
        d = made
    return d


def counts(axes: Axes) -> np.ndarray:
    """How many cells of each window count in a mean, as images of one channel."""
    found = np.ones(())
    for axis in axes:
        found = np.multiply.outer(found, np.array(axis.counts, float))
    return found[..., None]


def cells(axes: Axes) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """For each place in a window, in order: the number of the cell that each window has there, as
    images without channels, and whether there is one.
    """
    tables = list[np.ndarray]()
    for axis in axes:
        every = [axis.cells(o) for o in range(axis.out)]
        longest = max(map(len, every))
        tables.append(np.array([[*own, *[-1] * (longest - len(own))] for own in every]))
    for places in product(*(range(table.shape[1]) for table in tables)):
        numbers, there = np.zeros((), int), np.ones((), bool)
        for table, place, axis in zip(tables, places, axes, strict=True):
            own = table[:, place]
            numbers = np.add.outer(numbers * axis.size, own.clip(0))
            there = np.logical_and.outer(there, own >= 0)
        yield numbers, there


def flat(x: np.ndarray) -> np.ndarray:
    """Images with their cells in one axis."""
    return x.reshape(x.shape[0], -1, x.shape[-1])


def maxima(axes: Axes, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The greatest element of each window, and the number of its cell in the image: the first of
    equal ones; a NaN, the last, is greater than any number.
    """
    shape = (x.shape[0], *(axis.out for axis in axes), x.shape[-1])
    best, where = np.full(shape, -np.inf, x.dtype), None
    for numbers, there in cells(axes):
        if where is None:
            where = np.broadcast_to(numbers[..., None], shape)
        value = flat(x)[:, numbers.ravel()].reshape(shape)
        better = there[..., None] & ((value > best) | np.isnan(value))
        best, where = np.where(better, value, best), np.where(better, numbers[..., None], where)
    assert where is not None
    return best, where


def taken(axes: Axes, x: np.ndarray, flow: np.ndarray) -> np.ndarray:
    """The element of `flow` where x has the maximum of each window."""
    _, where = maxima(axes, x)
    return np.take_along_axis(flat(flow), flat(where), 1).reshape(where.shape)


def routed(axes: Axes, x: np.ndarray, d: np.ndarray) -> np.ndarray:
    """The adjoint of `taken`: each cell has the sum over the windows whose maximum it is."""
    _, where = maxima(axes, x)
    made = np.zeros((x.shape[0], prod(axis.size for axis in axes), x.shape[-1]), x.dtype)
    images, channels = np.arange(x.shape[0])[:, None, None], np.arange(x.shape[-1])
    np.add.at(made, (images, flat(where), channels), flat(d))
    return made.reshape(x.shape)
