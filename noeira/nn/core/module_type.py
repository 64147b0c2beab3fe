"""The metaclass of modules: what noeira asks of a module type, out of the way of the names that a
module declares.

    Linear              bare: its parameters are still to come
    Linear[3, 4]        made: it has them, written in brackets
    class MLP(Sequential[…])    a child of a made type: it has its parent's, and a name of its own
"""

from __future__ import annotations

import copyreg
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from noeira.errors import CompositionError
from noeira.nn.core.binding import bind, type_text, usage
from noeira.nn.core.parameters import Buffer, Param
from noeira.nn.core.parts import checked_children
from noeira.nn.core.slots import Slot

if TYPE_CHECKING:
    from noeira.nn.core.module import Module

T = TypeVar("T")


class ModuleType(type):
    """Type checkers see ordinary classes. The names that begin with `_` are the memory of it:
    what a class declares, what it was made of, and what was worked out about it.
    """

    _slots: dict[str, Slot]
    _params: dict[str, Param]
    _buffers: dict[str, Buffer]
    _made: tuple[Any, tuple[Any, ...]] | None

    @property
    def slots(cls) -> Mapping[str, Slot]:
        """The type parameters that the class declares, in that order."""
        return cls._slots

    @property
    def own_params(cls) -> Mapping[str, Param]:
        """The parameters that the class itself declares."""
        return cls._params

    @property
    def own_buffers(cls) -> Mapping[str, Buffer]:
        """The buffers that the class itself declares."""
        return cls._buffers

    @property
    def inside(cls: Any) -> tuple[tuple[str, type[Module]], ...]:
        """The modules inside and their names, as `children` gives them. Raises CompositionError if
        it gives something else.
        """
        return cls.remembered("_inside", lambda: checked_children(cls))

    @property
    def values(cls) -> tuple[Any, ...] | None:
        """The values of the slots; None as long as there are none."""
        return None if cls._made is None else cls._made[1]

    @property
    def family(cls) -> Any:
        """Whom the values were given to: Linear for `Linear[3, 4]` and for a child of that; the
        type itself as long as there are none.
        """
        return cls if cls._made is None else cls._made[0]

    @property
    def is_made(cls) -> bool:
        """Whether its values stand in brackets: `Linear[3, 4]`, and no child of it."""
        return cls.__dict__.get("_made") is not None

    @property
    def is_complete(cls) -> bool:
        """Whether it has all the parameters that it needs."""
        return cls._made is not None or not any(slot.required for slot in cls._slots.values())

    @property
    def sizes(cls) -> dict[str, int]:
        """The type parameters that are whole numbers, by name; of one for each axis, each."""
        found = dict[str, int]()
        for name, slot in cls._slots.items():
            found |= slot.lengths(getattr(cls, name))
        return found

    def __repr__(cls) -> str:
        return type_text(cls, cls.values) if cls.is_made else cls.__name__  # type: ignore[arg-type]

    def need_parameters(cls, place: str = "") -> None:
        """Raise CompositionError if the type still lacks parameters that must be given."""
        if not cls.is_complete:
            front = f"{place}: " if place else ""
            raise CompositionError(
                f"{front}{cls.__name__} needs its parameters: write {usage(cls)}"  # type: ignore[arg-type]
            )

    def parametrised(cls: Any, args: tuple[Any, ...], named: Mapping[str, Any]) -> Any:
        """The type with its parameters. Raises CompositionError, one message for each mistake."""
        if cls.is_made:
            raise CompositionError(
                f"{cls!r} has its parameters already; "
                f"write {usage(cls.family)} with one pair of brackets"
            )
        if cls.values is not None:
            raise CompositionError(
                f"{cls.__name__} is complete and takes no parameters: write {cls.__name__}"
            )
        cls.refuse(args, named)
        return cls.make(bind(cls, args, named))

    def remembered(cls, name: str, rule: Callable[[], T]) -> T:
        """What `rule` gives, worked out once for this very type."""
        if name not in cls.__dict__:
            setattr(cls, name, rule())
        return cls.__dict__[name]


def made_type(cls: type[Module], values: tuple[Any, ...]) -> Any:
    """A new type: `cls` with these values of its slots."""
    space = dict(zip(cls.slots, values, strict=True))
    space |= {"_made": (cls, values), "__doc__": cls.__doc__}
    space |= {"__module__": cls.__module__, "__qualname__": cls.__qualname__}
    return ModuleType(cls.__name__, (cls,), space)


def with_parameters(family: Any, values: tuple[Any, ...]) -> Any:
    """What a pickled type is made from again."""
    return family.make(values)


def reduced(cls: ModuleType) -> Any:
    """A made type is pickled as its family and its values, any other by its name."""
    return (with_parameters, (cls.family, cls.values)) if cls.is_made else cls.__qualname__


copyreg.pickle(ModuleType, reduced)  # type: ignore[arg-type]
