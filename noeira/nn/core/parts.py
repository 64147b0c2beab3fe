"""What may be a part of a composite, or be given by `children`: the one message for each thing that
is no module type.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from noeira.errors import CompositionError

if TYPE_CHECKING:
    from noeira.nn.core.module import Module


def module_type(value: Any, written: str, index: int | None, role: str = "layer") -> type[Module]:
    """`value` as the part at `index` of the composite written as `written` (None: its only part),
    which is made of modules of that role.

    Raises CompositionError.
    """
    place = f"{written}: {'the module' if index is None else f'{role} {index}'}"
    check_part(value, place)
    if value.role != role and role != "layer":
        raise CompositionError(f"{place} must be a {role}; {value!r} is a {value.role}")
    if value.role != role:
        raise CompositionError(
            f"{place}: {value!r} is a {value.role}: it takes a prediction and a target, "
            f"and is given to training, not to the network"
        )
    return value


def check_part(value: Any, place: str) -> None:
    """Raises CompositionError unless the value is a module type with its parameters."""
    from noeira.nn.core.module import Module

    if isinstance(value, Module):
        raise CompositionError(
            f"{place} must be a type: write {type(value)!r}, not {type(value)!r}()"
        )
    if isinstance(value, (tuple, list)):
        raise CompositionError(
            f"{place} is a {type(value).__name__}; "
            f"write the layers one after the other, separated by commas"
        )
    if isinstance(value, str):
        raise CompositionError(f"{place} must be a module type: write {value} without quotes")
    if not isinstance(value, type):
        raise CompositionError(f"{place} must be a module type, not {value!r}")
    if not issubclass(value, Module):
        raise CompositionError(
            f"{place} must be a module type; {value.__name__} is a class, but no Module"
        )
    if value is Module:
        raise CompositionError(f"{place} must be a layer; Module is the parent of all of them")
    value.need_parameters(place)


def checked_children(cls: type[Module]) -> tuple[tuple[str, type[Module]], ...]:
    """What `children` gives. Raises CompositionError unless these are pairs of a name and a module
    type.
    """
    given, place = cls.children(), f"{cls!r}.children()"
    like = 'write pairs such as (("first", Linear[3, 4]), ("second", ReLU))'
    if not isinstance(given, (tuple, list)):
        raise CompositionError(f"{place} gives {given!r}: {like}")
    for pair in given:
        if not isinstance(pair, (tuple, list)) or len(pair) != 2 or not isinstance(pair[0], str):
            raise CompositionError(f"{place} gives {pair!r} as a child: {like}")
        name, part = pair
        if not re.fullmatch(r"\w*", name):
            raise CompositionError(
                f"{place}: {name!r} cannot be in a path; names are of letters, digits and _"
            )
        check_part(part, f"{place}: {name or 'the one without a name'}")
    return tuple((name, part) for name, part in given)
