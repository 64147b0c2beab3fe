"""Where the elements of a convolution's operands lie, as the sides of its product."""

from __future__ import annotations

import math

from noeira.codegen.ctext import quotient, remainder, times
from noeira.codegen.kernels.convolution.cuda_phases import Phases
from noeira.codegen.kernels.convolution.cuda_product import ADJOINT, FORWARD, Convolved
from noeira.codegen.kernels.convolution.cuda_window import Part, Window, digits, joined, scaled
from noeira.codegen.kernels.gemm.cuda_side import Side
from noeira.ir.geometry import Geometry, Sizes


def left_side(p: Convolved, plain: Side) -> Side:
    """The operand A; `plain`: as it is if its elements lie at equal distances."""
    if p.flat:
        return plain
    return met_places(p, plain) if p.kind == ADJOINT else met_pixels(p, plain)


def right_side(p: Convolved, plain: Side) -> Side:
    """The operand B."""
    return plain if p.flat or p.kind != ADJOINT else picked_taps(p, plain)


def met_pixels(p: Convolved, plain: Side) -> Window:
    """x, in pixels that taps meet. In a convolution rows are places of the result, and steps taps
    and channels; in the gradient of a weight it is the other way round.
    """
    g, forward = p.geometry, p.kind == FORWARD
    line, step = (g.before, (0,) * len(g.size)) if forward else ((0,) * len(g.size), g.before)
    place, tap = ("line", "step") if forward else ("step", "line")
    found = digits(place, g.out, g.batch * g.pixels)
    along = tuple(
        scaled(text, stride, -before)
        for text, stride, before in zip(found, g.stride, line, strict=True)
    )
    images = Part(along, images_before(place, g.out, g.batch, g.size, g.channels))
    number, channel = tap_and_channel(tap, g.channels_of_group, g.taps, plain)
    found = digits(number, g.kernel, g.taps)
    along = tuple(
        scaled(text, dilation, -before)
        for text, dilation, before in zip(found, g.dilation, step, strict=True)
    )
    taps = Part(along, channel)
    lines, steps = (images, taps) if forward else (taps, images)
    return Window(
        **vars(plain),
        sizes=g.size,
        pixel=g.channels,
        leaves=leaves(g),
        neighbours=g.channels_of_group,
        lines=lines,
        steps=steps,
    )


def met_places(p: Convolved, plain: Side) -> Window:
    """d, in places that taps of the present phase meet: rows are pixels of the phase, steps its
    taps and filters.
    """
    g, axes = p.geometry, p.phases
    pixels = tuple(axis.pixels for axis in axes)
    found = digits("line", pixels, p.m)
    bases = (axis.chosen(axis.bases) for axis in axes)
    lines = Part(
        tuple(map(joined, found, bases)),
        images_before("line", pixels, g.batch, g.out, g.filters),
    )
    number, channel = tap_and_channel("step", g.filters_of_group, p.most_taps, plain)
    taps = tuple(
        scaled(text, -axis.reach) for text, axis in zip(of_phase(number, p), axes, strict=True)
    )
    return Window(
        **vars(plain),
        sizes=g.out,
        pixel=g.filters,
        leaves=tuple(axis.leaves for axis in axes),
        neighbours=g.filters_of_group,
        lines=lines,
        steps=Part(taps, channel),
        steps_name="" if p.even else "steps",
    )


def picked_taps(p: Convolved, plain: Side) -> Window:
    """The weight, of which a phase has some taps: columns are channels, steps taps and filters."""
    g, axes = p.geometry, p.phases
    number, channel = tap_and_channel("step", g.filters_of_group, p.most_taps, plain)
    taps = tuple(
        scaled(text, axis.step) for text, axis in zip(of_phase(number, p), axes, strict=True)
    )
    firsts = tuple(axis.chosen(axis.firsts) for axis in axes)
    sizes = g.kernel
    if p.phase_count == 1 and taps_follow(axes):
        # Then taps are numbered as they lie.
        taps, firsts, sizes = (number,), ("0",), (g.taps,)
    return Window(
        **vars(plain),
        sizes=sizes,
        pixel=g.channels_of_group * g.filters,
        leaves=((False, False),) * len(sizes),
        neighbours=g.filters_of_group,
        lines=Part(firsts, times("line", g.filters)),
        steps=Part(taps, channel),
        steps_name="" if p.even else "steps",
    )


def taps_follow(axes: tuple[Phases, ...]) -> bool:
    """Whether a lone phase has all taps."""
    return all(axis.counts == (axis.kernel,) for axis in axes)


def images_before(index: str, extents: Sizes, batch: int, sizes: Sizes, channels: int) -> str:
    """C text for the elements of the images before that of an index, of which each has numbers for
    these extents.
    """
    image = math.prod(extents)
    return times(quotient(index, image, batch * image), math.prod(sizes) * channels)


def tap_and_channel(index: str, own: int, taps: int, plain: Side) -> tuple[str, str]:
    """C text for the tap and the channel that an index numbers. Where the steps of a tile are all
    of one tap, that is the same for all threads.
    """
    start = "k" if index == "step" and own % plain.depth == 0 else index
    return quotient(start, own, taps * own), remainder(index, own, taps * own)


def of_phase(number: str, p: Convolved) -> tuple[str, ...]:
    """C text for which of its taps along each axis a tap is among all of the present phase."""
    if p.even:
        return digits(number, tuple(axis.most for axis in p.phases), p.most_taps)
    found = list[str]()
    for axis in reversed(p.phases[1:]):
        count = axis.taps_name
        found.insert(0, "0" if count == "1" else f"{number} % {count}")
        number = number if count == "1" else f"{number} / {count}"
    return (number if p.phases[0].most > 1 else "0", *found)


def leaves(g: Geometry) -> tuple[tuple[bool, bool], ...]:
    """Whether taps meet pixels before and behind an image, along each axis."""
    axes = zip(g.out, g.stride, g.kernel, g.dilation, g.before, g.size, strict=True)
    return tuple(
        (before > 0, (out - 1) * stride + (kernel - 1) * dilation - before >= size)
        for out, stride, kernel, dilation, before, size in axes
    )
