"""Where the channels of images are, as the letters of a signature say: (C, H, W) or (H, W, C)."""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from noeira.errors import CompositionError
from noeira.nn.core.expression import Axis, names
from noeira.nn.core.signature import Pattern

if TYPE_CHECKING:
    from noeira.nn.core.module import Module

# What the axes beside the channels are called, by the number of all of them.
PLACES = {2: "L", 3: "HW", 4: "DHW"}
# How the names of layers end that are alike but for the number of these axes.
AXES_IN_NAMES = ("1D", "2D", "3D")
# The layers that change one order of axes into the other, by the order that they give.
CHANGING = {"nchw": "ToNCHW", "nhwc": "ToNHWC"}


def image_axes(pattern: Pattern) -> str:
    """The order of the axes of a batch, such as `nchw` or `nhwc`; empty of what need be no images:
    if an axis beside the channels has no letter any more, or the channels are between them.
    """
    places = PLACES.get(len(pattern.axes), "")
    if pattern.rest or not places:
        return ""
    found = "".join(letter(axis, places) for axis in pattern.axes)
    if sorted(found) != sorted(f"c{places.lower()}") or "c" not in (found[0], found[-1]):
        return ""
    return f"nc{places.lower()}" if found[0] == "c" else f"n{places.lower()}c"


def letter(axis: Axis, places: str) -> str:
    """The letter of the axis that a length follows from; `c` for any other length."""
    own = {name.partition("'")[0].rstrip("0123456789") for name in names(axis)}
    return own.pop().lower() if len(own) == 1 and own <= {*places} else "c"


def reordered(module: type[Module]) -> list[type[Module]]:
    """What a layer could be in place of itself where another number of axes is given: it with
    another choice of axes, then the layers that are called so for one, two or three axes.
    """
    name, kind, slots = module.family.__name__[:-2], module.family.__name__[-2:], module.slots
    if "AXES" not in slots or not module.is_made:
        return []
    options = {slot.lower(): getattr(module, slot) for slot in slots if slot != "AXES"}
    alike = [f"{name}{other}" for other in AXES_IN_NAMES if kind in AXES_IN_NAMES]
    space: dict[str, Any] = vars(sys.modules[module.family.__module__])
    found: list[type[Module]] = []
    for family in (module.family, *(space[one] for one in alike if one in space)):
        for word in family.slots["AXES"].words:
            with suppress(CompositionError):
                found.append(family.parametrised((), {**options, "axes": word}))
    return [other for other in dict.fromkeys(found) if other is not module]
