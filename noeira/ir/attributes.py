"""Attributes of ops and options of passes: frozen classes made from what a text says, every value
checked.
"""

from __future__ import annotations

from dataclasses import fields
from functools import cache
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from noeira.errors import ParseError
from noeira.ir.lexer import literal
from noeira.ir.types import Range

T = TypeVar("T")

WORDS = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "a text in quotes",
    Range: "a range such as 0:64",
}


class Unfit(Exception):
    """A value that is not of the declared type; says what was expected."""


@cache
def declared(cls: type) -> dict[str, Any]:
    """The type of each field of a dataclass."""
    hints = get_type_hints(cls)
    return {field.name: hints[field.name] for field in fields(cls)}  # type: ignore[arg-type]


def filled(owner: str, cls: type[T], values: dict[str, Any]) -> T:
    """An instance of a dataclass. Raises ParseError for a field it has not, or a value of another
    type.
    """
    kinds = declared(cls)
    fitting: dict[str, Any] = {}
    for name, value in values.items():
        if name not in kinds:
            known = f"it has {', '.join(kinds)}" if kinds else "it has none"
            raise ParseError(f"{owner} has no attribute {name!r}; {known}")
        try:
            fitting[name] = fit(value, kinds[name])
        except Unfit as wanted:
            raise ParseError(f"{owner}: {name} must be {wanted}, not {literal(value)}") from None
    return cls(**fitting)


def fit(value: Any, kind: Any) -> Any:
    """The value as the declared type, whole numbers as floats where a float is wanted. Raises
    Unfit.
    """
    if kind is Any:
        return value
    if kind is float and type(value) is int:
        return float(value)
    if get_origin(kind) is tuple:
        return fit_list(value, get_args(kind))
    if type(value) is not kind:
        raise Unfit(WORDS.get(kind, str(kind)))
    return value


def fit_list(value: Any, kinds: tuple[Any, ...]) -> tuple[Any, ...]:
    """A list, each item as declared. Raises Unfit."""
    if not isinstance(value, tuple):
        raise Unfit("a list in brackets")
    if kinds[-1] is Ellipsis:
        kinds = (kinds[0],) * len(value)
    if len(kinds) != len(value):
        raise Unfit(f"a list of {len(kinds)}")
    try:
        return tuple(fit(item, kind) for item, kind in zip(value, kinds, strict=True))
    except Unfit as wanted:
        raise Unfit(f"a list, each item {wanted}") from None
