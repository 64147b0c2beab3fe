"""What may be a part of a composite: the one message for each thing that is no module type."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from noeira.errors import CompositionError

if TYPE_CHECKING:
    from noeira.nn.core.module import Module


def module_type(value: Any, written: str, index: int | None, role: str = "layer") -> type[Module]:
    """`value` as the part at `index` of the composite written as `written` (None: its only part),
    which is made of modules of that role.

    Raises CompositionError.
    """
    from noeira.nn.core.module import Module

    place = f"{written}: {'the module' if index is None else f'{role} {index}'}"
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
    if value.role != role and role != "layer":
        raise CompositionError(f"{place} must be a {role}; {value!r} is a {value.role}")
    if value.role != role:
        raise CompositionError(
            f"{place}: {value!r} is a {value.role}: it takes a prediction and a target, "
            f"and is given to training, not to the network"
        )
    return value
