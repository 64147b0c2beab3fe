"""What layers of images have in common: the order of their axes, as a user counts them."""

from __future__ import annotations

from typing import Any, ClassVar

from noeira.ir.graph import Value
from noeira.nn.core.module import Module
from noeira.nn.core.signature import Signature, parse_signature

__all__: list[str] = []


class Images(Module):
    """The parent of layers that take images: channels, and axes beside them.

    AXES: the order of the axes of a batch, which each of them declares as its last parameter; a
    word that ends in `c` has the channels behind. letters: what the axes beside the channels are
    called in signatures.
    """

    AXES: ClassVar[str]
    letters: ClassVar[str] = "HW"

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
