"""Container: a module made of other modules, whose instance can be indexed and iterated."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Literal

from noeira.errors import CompositionError
from noeira.ir.graph import Value
from noeira.ir.numbers import whole_number
from noeira.nn.core.binding import as_written
from noeira.nn.core.module import Module
from noeira.nn.core.scope import Scope
from noeira.nn.core.signature import Signature, listed
from noeira.nn.core.slots import ModuleSlot, ModulesSlot, module


class Container(Module):
    """The parent of the combinators.

    On an instance: `len(net)`, `net[0]`, `net[-1]`, `for layer in net`.
    """

    @classmethod
    def parts(cls) -> tuple[type[Module], ...]:
        """The module types inside, in order."""
        raise CompositionError(
            f"{cls.__name__} does not say what it is made of: define the classmethod parts(cls)"
        )

    @classmethod
    def takes_parts(cls) -> bool:
        """Whether the parts are written in brackets; they can also follow from type parameters."""
        return any(isinstance(slot, (ModuleSlot, ModulesSlot)) for slot in cls.slots.values())

    @classmethod
    def children(cls) -> tuple[tuple[str, type[Module]], ...]:
        return tuple((str(index), part) for index, part in enumerate(cls.parts()))

    @classmethod
    def changed(cls, end: Literal["takes", "gives"], axis: int, length: int) -> Any:
        """The parts as written, with an axis of the whole changed; None if that cannot be."""
        return None

    @classmethod
    def adjusted(cls, end: Literal["takes", "gives"], axis: int, length: int) -> Any:
        if not cls.takes_parts():
            return super().adjusted(end, axis, length)
        new = cls.changed(end, axis, length) if cls.is_made else None
        if not new:
            return None
        kinds, values = list(cls.slots.values()), list(cls.values or ())
        of_parts = [
            i for i, slot in enumerate(kinds) if isinstance(slot, (ModuleSlot, ModulesSlot))
        ]
        values[of_parts[-1]] = new
        return cls.family.make(tuple(values))

    @classmethod
    def through(cls, scope: Scope, x: Value, *further: Value) -> Value:
        """Emit the modules inside, each on what the one before it gives, and on further inputs that
        are the same for all.
        """
        for name, part in cls.inside:
            x = scope.child(name, part).run(x, *further)
        return x

    def __len__(self) -> int:
        return len(type(self).inside)

    def __getitem__(self, index: int) -> Any:
        """The child instance at `index`; it shares the memory of the network."""
        count, place = len(self), whole_number(index)
        if place is None:
            raise CompositionError(
                f"{type(self)!r} has its layers by whole numbers, not by {index!r}"
            )
        if not -count <= place < count:
            raise IndexError(f"{type(self)!r} has {count} layers, there is no {index}")
        return self.child(place % count)

    def __iter__(self) -> Iterator[Any]:
        return (self[index] for index in range(len(self)))


class Wrapper(Container):
    """The parent of combinators of one module."""

    INNER = module()
    placeholders: ClassVar[dict[str, str]] = {"INNER": "M"}

    @classmethod
    def refuse(cls, args: tuple[Any, ...], named: dict[str, Any]) -> None:
        if len(args) > 1 and cls.takes_parts():
            inside = ", ".join(map(repr, args))
            raise CompositionError(
                f"{as_written(cls, args, named)}: {cls.__name__} has one module; "
                f"write {cls.__name__}[Sequential[{inside}]]"
            )

    @classmethod
    def parts(cls) -> tuple[type[Module], ...]:
        return (cls.INNER,)


def unary(
    owner: str, part: type[Module], index: int | None = None, further: bool = False
) -> Signature:
    """The signature of a part that must have one input and one output. further: it may have more
    inputs. Raises CompositionError.
    """
    signature = part.shapes()
    inputs = signature.inputs[:1] if further else signature.inputs
    for word, patterns in (("takes", inputs), ("gives", signature.outputs)):
        if len(patterns) != 1:
            place = "the module" if index is None else f"layer {index}"
            raise CompositionError(
                f"{place} of {owner}: {part!r} {word} {len(patterns)} values, {listed(patterns)}; "
                f"in {owner} a layer {word} one"
            )
    return signature
