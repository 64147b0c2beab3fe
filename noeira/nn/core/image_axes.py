"""Where the channels of images are, as the letters of a signature say: (C, H, W) or (H, W, C)."""

from __future__ import annotations

from noeira.nn.core.expression import Axis, names
from noeira.nn.core.signature import Pattern

# What the axes beside the channels are called, by the number of all of them.
PLACES = {2: "L", 3: "HW", 4: "DHW"}
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
