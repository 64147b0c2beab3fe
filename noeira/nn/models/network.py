"""Network: the parent of the networks that have names, whose layers have names too."""

from __future__ import annotations

from typing import ClassVar

from noeira.nn.combinators.sequential import Sequential
from noeira.nn.core.module import Module
from noeira.nn.core.slots import derived

# Layers in order, each with its name; one without a name is at its parent's place.
Layers = tuple[tuple[str, type[Module]], ...]


class Network(Sequential):
    """The parent of networks whose layers follow from their type parameters: one after the other,
    each with a name, which its parameters begin with.

    Subclasses say them by `layers`.
    """

    LAYERS = derived(lambda net: tuple(part for _, part in net.layers()))
    placeholders: ClassVar[dict[str, str]] = {}

    @classmethod
    def layers(cls) -> Layers:
        """The layers in order, each with its name."""
        raise NotImplementedError(f"{cls.__name__}.layers")

    @classmethod
    def children(cls) -> Layers:
        return cls.layers()
