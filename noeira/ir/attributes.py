"""Attributes of ops and options of passes: frozen classes made from what a text says, every value
checked.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import MISSING, fields, replace
from functools import cache
from itertools import product
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from noeira.errors import OptionError, VerifyError
from noeira.ir.layouts import Range
from noeira.ir.text.lexer import literal

T = TypeVar("T")

WORDS = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "a text in quotes",
    Range: "a range such as 0:64",
}


GENERIC: dict[Any, Any] = {
    bool: False,
    int: 3,
    float: 0.7390851332151607,
    str: "",
    Range: Range(0, 1),
    Any: None,
}


class Unfit(Exception):
    """A value that is not of the declared type; says what was expected."""


@cache
def declared(cls: type) -> dict[str, Any]:
    """The type of each field of a dataclass. Raises VerifyError for one that no text can say."""
    hints = get_type_hints(cls)
    kinds = {field.name: hints[field.name] for field in fields(cls)}  # type: ignore[arg-type]
    for name, kind in kinds.items():
        if not known(kind):
            raise VerifyError(
                f"{cls.__name__}: {name} is declared as {kind}; "
                "attributes are int, float, bool, str, Range, or tuples of these"
            )
    return kinds


def known(kind: Any) -> bool:
    """Whether values of a type can be written in a text."""
    if get_origin(kind) is tuple:
        return all(part is Ellipsis or known(part) for part in get_args(kind))
    return kind is Any or kind in WORDS


@cache
def required(cls: type) -> tuple[str, ...]:
    """The fields of a dataclass that have no default."""
    return tuple(
        field.name
        for field in fields(cls)  # type: ignore[arg-type]
        if field.default is MISSING and field.default_factory is MISSING
    )


@cache
def generic(cls: type[T]) -> T:
    """An instance with values that stand for any others: no float of it is one that arithmetic
    drops, such as 0 or 1. What has a default and is no float keeps it.
    """
    kinds = declared(cls)
    return cls(**{n: example(kinds[n]) for n in kinds if kinds[n] is float or n in required(cls)})


def needed(cls: type) -> dict[str, Any]:
    """What `generic` has of the fields without a default."""
    return {name: getattr(generic(cls), name) for name in required(cls)}


@cache
def variants(cls: type[T]) -> tuple[T, ...]:
    """`generic`, then the same with every other choice of its flags that there can be."""
    base, found = generic(cls), list[T]()
    flags = {name: getattr(base, name) for name, kind in declared(cls).items() if kind is bool}
    for chosen in product(*((value, not value) for value in flags.values())):
        # A choice that the class refuses no node has.
        with suppress(OptionError):
            found.append(replace(base, **dict(zip(flags, chosen, strict=True))))  # type: ignore[type-var]
    return tuple(found)


def example(kind: Any) -> Any:
    """A value of a type that attributes can have."""
    if get_origin(kind) is tuple:
        return tuple(example(part) for part in get_args(kind) if part is not Ellipsis)
    return GENERIC[kind]


def filled(owner: str, cls: type[T], values: Mapping[str, Any]) -> T:
    """An instance of a dataclass. Raises VerifyError for a field it has not, a value of another
    type or out of its range, or one that is missing.
    """
    kinds = declared(cls)
    fitting: dict[str, Any] = {}
    for name, value in values.items():
        if name not in kinds:
            known = f"it has {', '.join(kinds)}" if kinds else "it has none"
            raise VerifyError(f"{owner} has no attribute {name!r}; {known}")
        try:
            fitting[name] = fit(value, kinds[name])
        except Unfit as wanted:
            raise VerifyError(f"{owner}: {name} must be {wanted}, not {literal(value)}") from None
    for name in required(cls):
        if name not in fitting:
            raise VerifyError(f"{owner} needs the attribute {name!r}")
    try:
        return cls(**fitting)
    except OptionError as error:
        raise VerifyError(str(error)) from None


def fit(value: Any, kind: Any) -> Any:
    """The value as the declared type: whole numbers as floats where a float is wanted, scalars of
    NumPy as Python's, lists as tuples. Raises Unfit.
    """
    if kind is Any or type(value) is kind:
        return value
    if getattr(value, "shape", None) == () and hasattr(value, "item"):
        value = value.item()
    if get_origin(kind) is tuple:
        return fit_list(value, get_args(kind))
    if kind is float and type(value) is int:
        return exactly(value)
    if type(value) is not kind:
        raise Unfit(WORDS[kind])
    return value


def exactly(value: int) -> float:
    """A whole number as a float. Raises Unfit if that would be another number."""
    if abs(value) >= 2**1024 or int(float(value)) != value:
        raise Unfit("a number that a float of 64 bits has without loss")
    return float(value)


def fit_list(value: Any, kinds: tuple[Any, ...]) -> tuple[Any, ...]:
    """A list, each item as declared. Raises Unfit."""
    if not isinstance(value, tuple | list):
        raise Unfit("a list in brackets")
    if kinds[-1] is Ellipsis:
        kinds = (kinds[0],) * len(value)
    if len(kinds) != len(value):
        raise Unfit(f"a list of {len(kinds)}")
    try:
        return tuple(fit(item, kind) for item, kind in zip(value, kinds, strict=True))
    except Unfit as wanted:
        raise Unfit(f"a list, each item {wanted}") from None
