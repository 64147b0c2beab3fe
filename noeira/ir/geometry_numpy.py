"""Convolutions in NumPy, a tap of the kernel at a time: what the references of their ops are made
of.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np

from noeira.ir.geometry import Geometry

Tap = tuple[int, ...]
# What of padded images a tap meets: a slice for the batch and for each axis.
Place = tuple[slice, ...]


def places(g: Geometry) -> Iterator[tuple[Tap, Place]]:
    """Each tap, with the pixels of padded images that it meets."""
    for tap in product(*map(range, g.kernel)):
        starts = [k * d for k, d in zip(tap, g.dilation, strict=True)]
        axes = (
            slice(start, start + step * (count - 1) + 1, step)
            for start, step, count in zip(starts, g.stride, g.out, strict=True)
        )
        yield tap, (slice(None), *axes)


def padded_zeros(g: Geometry, dtype: np.dtype) -> np.ndarray:
    """Padded images of zeros, [N, *S, groups, channels of a group]."""
    size = [sum(one) for one in zip(g.before, g.size, g.after, strict=True)]
    return np.zeros((g.batch, *size, g.groups, g.channels_of_group), dtype)


def inside(g: Geometry) -> Place:
    """What of padded images is no padding."""
    axes = (slice(first, first + n) for first, n in zip(g.before, g.size, strict=True))
    return (slice(None), *axes)


def padded(g: Geometry, x: np.ndarray) -> np.ndarray:
    """Images [N, *S, C], padded and in groups."""
    made = padded_zeros(g, x.dtype)
    made[inside(g)] = x.reshape(g.batch, *g.size, g.groups, -1)
    return made


def filters_by_group(g: Geometry, weight: np.ndarray) -> np.ndarray:
    """A weight [*K, C/groups, F] as [*K, groups, C/groups, F/groups]."""
    grouped = weight.reshape(*g.kernel, g.channels_of_group, g.groups, g.filters_of_group)
    return np.moveaxis(grouped, -2, -3)


def convolved(g: Geometry, x: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """y of x and the weight, channels last."""
    images, filters = padded(g, x), filters_by_group(g, weight)
    made = np.zeros((g.batch, *g.out, g.groups, g.filters_of_group), x.dtype)
    for tap, place in places(g):
        made += np.matmul(images[place][..., None, :], filters[tap])[..., 0, :]
    return made.reshape(g.batch, *g.out, g.filters)


def spread(g: Geometry, d: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """The cotangent of x, from that of y and the weight, channels last."""
    flow, filters = d.reshape(g.batch, *g.out, g.groups, -1), filters_by_group(g, weight)
    made = padded_zeros(g, d.dtype)
    for tap, place in places(g):
        made[place] += np.matmul(flow[..., None, :], filters[tap].swapaxes(-1, -2))[..., 0, :]
    return made[inside(g)].reshape(g.batch, *g.size, g.channels)


def gathered(g: Geometry, x: np.ndarray, d: np.ndarray) -> np.ndarray:
    """The cotangent of the weight, from x and the cotangent of y, channels last."""
    images, flow = padded(g, x), d.reshape(-1, g.groups, g.filters_of_group)
    made = np.zeros((*g.kernel, g.channels_of_group, g.groups, g.filters_of_group), x.dtype)
    for tap, place in places(g):
        met = images[place].reshape(-1, g.groups, g.channels_of_group)
        for group in range(g.groups):
            made[tap][:, group] = met[:, group].T @ flow[:, group]
    return made.reshape(*g.kernel, g.channels_of_group, g.filters)
