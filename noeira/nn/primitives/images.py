"""What layers of images have in common: the order of their axes, as a user counts them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from noeira.errors import CompositionError
from noeira.ir.graph import Value
from noeira.nn.core.binding import as_written
from noeira.nn.core.extents import per_axis
from noeira.nn.core.module import Module
from noeira.nn.core.signature import Signature, parse_signature

__all__: list[str] = []


def refuse_words(cls: type[Module], args: tuple[Any, ...], named: dict[str, Any]) -> None:
    """Raises CompositionError for the words that PyTorch and Keras have for a padding, with the
    number to write.
    """
    given = {name: slot.default for name, slot in cls.slots.items()}
    given |= dict(zip(cls.slots, args, strict=False))
    given |= {name.upper(): value for name, value in named.items()}
    word, kernel, dilation = (given.get(name, 1) for name in ("PADDING", "K", "DILATION"))
    axes = len(kernel) if isinstance(kernel, tuple) else 1
    pairs = list(zip(per_axis(kernel, axes), per_axis(dilation, axes), strict=False))
    if word not in ("same", "valid") or not all(type(n) is int for pair in pairs for n in pair):
        return
    written = f"{as_written(cls, args, named)}: padding is a number"
    if word == "valid":
        raise CompositionError(f"{written}: leave it out, it is 0")
    both = [apart * (cells - 1) for cells, apart in pairs]
    if any(pixels % 2 for pixels in both):
        raise CompositionError(f"{written}, of both sides, which keeps the size for an odd K alone")
    halves = tuple(pixels // 2 for pixels in both)
    right = halves[0] if len(set(halves)) == 1 else halves
    raise CompositionError(f"{written}: write padding={right}, which keeps the size at stride 1")


def spanning(cells: Sequence[int], padding: Any) -> str:
    """What is said of windows for which an image is too small: their length along each axis, and
    the padding around the image.
    """
    span = " by ".join(map(str, dict.fromkeys(cells)))
    padded = f", with {padding} of padding on both sides" if padding else ""
    advice = "take larger images, more padding or a smaller K"
    return f"a window spans {span} cells of an axis{padded}; {advice}"


class Images(Module):
    """The parent of layers that take images: channels, and axes beside them.

    AXES: the order of the axes of a batch, which each of them declares as its last parameter; a
    word that ends in `c` has the channels behind. letters: what the axes beside the channels are
    called in signatures.
    """

    AXES: ClassVar[str]
    letters: ClassVar[str] = "HW"

    @classmethod
    def refuse(cls, args: tuple[Any, ...], named: dict[str, Any]) -> None:
        refuse_words(cls, args, named)

    @classmethod
    def channels_last(cls) -> bool:
        """Whether channels are the last axis."""
        return cls.AXES.endswith("c")

    @classmethod
    def image(cls, *sizes: str) -> str:
        """The pattern of one image, from the lengths of its axes beside the channels."""
        axes = (*sizes, "C") if cls.channels_last() else ("C", *sizes)
        return f"({', '.join(axes)})"

    @classmethod
    def made_of(cls, gives: str) -> Signature:
        """The signature of what gives that pattern."""
        text = f"{cls.image(*cls.letters)} -> {gives}"
        return parse_signature(text, cls.__name__).filled(cls.sizes)

    @classmethod
    def size_of(cls, x: Value) -> tuple[int, ...]:
        """The lengths of the axes of images beside batch and channels."""
        return x.type.shape[1:-1] if cls.channels_last() else x.type.shape[2:]

    @classmethod
    def order(cls) -> dict[str, Any]:
        """The attribute of nodes that says where channels are."""
        return {"channels_last": True} if cls.channels_last() else {}
