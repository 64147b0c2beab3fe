"""From what a user writes in brackets to the values of the type parameters, and back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from noeira.errors import CompositionError
from noeira.nn.core.slots import ModuleSlot, ModulesSlot, Slot

if TYPE_CHECKING:
    from noeira.nn.core.module import Module

LONGEST = 70
# What an instance is made with.
OPTIONS = ("init", "seed", "dtype")


def bind(cls: type[Module], args: tuple[Any, ...], named: Mapping[str, Any]) -> tuple[Any, ...]:
    """The value of every slot of `cls`, in order.

    Raises CompositionError, one message a mistake.
    """
    slots = list(cls.slots.values())
    written = as_written(cls, args, named)
    if not slots:
        raise CompositionError(f"{cls.__name__} takes no parameters: write {cls.__name__}")
    args = gathered(cls, slots, args, written)
    given = dict(zip(cls.slots, args, strict=False))
    for keyword, value in named.items():
        name = keyword.upper()
        if name not in cls.slots:
            raise unknown(cls, keyword)
        if name in given:
            raise CompositionError(f"{written}: {cls.slots[name].label} is given twice")
        given[name] = value
    missing = [shown(cls, s) for s in slots if s.required and s.name not in given]
    if missing:
        verb = "is" if len(missing) == 1 else "are"
        raise CompositionError(
            f"{written}: {' and '.join(missing)} {verb} missing; write {usage(cls)}"
        )
    return tuple(s.read(given[s.name], written) if s.name in given else s.default for s in slots)


def refuse_call(cls: type[Module], args: tuple[Any, ...], options: Mapping[str, Any]) -> None:
    """Raises CompositionError for type parameters between parentheses: `Linear(3, 4)`."""
    from noeira.nn.core.module import Module

    named = {key: value for key, value in options.items() if key.upper() in cls.slots}
    strange = [k for k in options if k not in (*named, *OPTIONS)]
    if strange and cls.__init__ is Module.__init__:
        raise CompositionError(f"{cls!r}() takes {', '.join(OPTIONS)}, not {strange[0]}")
    if not args and not named:
        return
    if cls.role != "layer" and not cls.slots:
        raise CompositionError(f"{cls!r} takes no parameters: write {cls!r}")
    if cls.values is not None or not cls.slots or any(hasattr(a, "shape") for a in args):
        raise CompositionError(
            f"{cls!r}() makes an instance and takes {', '.join(OPTIONS)}, by name; "
            f"to run a network on arrays write noeira.compile({cls!r}).forward(x)"
        )
    place = "in .of(…)" if named else "in brackets"
    try:
        cls.parametrised(args, dict(named))
    except CompositionError as mistake:
        raise CompositionError(f"type parameters go {place}: {mistake}") from None
    inside = ", ".join([*map(short, args), *(f"{k}={short(v)}" for k, v in named.items())])
    right = f"{cls.__name__}.of({inside})" if named else f"{cls.__name__}[{inside}]"
    instance = "()" if cls.role == "layer" else ""
    raise CompositionError(
        f"type parameters go {place}: write {right}{instance}, not {cls.__name__}({inside})"
    )


def shown(cls: type[Module], slot: Slot) -> str:
    """The value of a slot as messages name it: `IN`, `bias`, `M`."""
    return cls.placeholders.get(slot.name, slot.label)


def gathered(
    cls: type[Module], slots: list[Slot], args: tuple[Any, ...], written: str
) -> tuple[Any, ...]:
    """The positional values, one a slot: a slot of several modules takes all that are left."""
    fixed = place_of_several(slots)
    if fixed is not None:
        rest, slot = args[fixed:], slots[fixed]
        if rest:
            return (*args[:fixed], rest)
        if slot.required:
            raise CompositionError(
                f"{written} is empty: write {usage(cls)} with at least one {slot.each}"
            )
        return args
    if len(args) > len(slots):
        raise CompositionError(
            f"{written}: {len(args)} parameters are too many; write {usage(cls)}"
        )
    return args


def place_of_several(slots: Sequence[Slot]) -> int | None:
    """Where the slot of several modules is, if there is one; those after it are given by name."""
    return next((index for index, slot in enumerate(slots) if slot.several), None)


def unknown(cls: type[Module], keyword: str) -> CompositionError:
    """The error for a keyword that is no parameter."""
    import difflib

    labels = [slot.label for slot in cls.slots.values()]
    near = difflib.get_close_matches(keyword.lower(), [label.lower() for label in labels], n=1)
    hint = f"; did you mean {next(x for x in labels if x.lower() == near[0])}?" if near else ""
    return CompositionError(
        f"{cls.__name__} has no parameter {keyword!r}; it has {', '.join(labels)}{hint}"
    )


def usage(cls: type[Module]) -> str:
    """How a type is written: `Linear[IN, OUT]`, `Clamp.of(low=…, high=…)`, `Repeat[N, M]`."""
    slots = list(cls.slots.values())
    required = [slot for slot in slots if slot.required]
    if any(not slot.required for slot in slots[: len(required)]):
        return f"{cls.__name__}.of({', '.join(f'{slot.label}=…' for slot in required)})"
    needed = [shown(cls, slot) for slot in required]
    options = [f"{slot.label}=…" for slot in slots if not slot.required]
    base = f"{cls.__name__}[{', '.join(needed)}]" if needed else cls.__name__
    return f"{base} or {cls.__name__}.of({', '.join([*needed, *options])})" if options else base


def as_written(cls: type[Module], args: Sequence[Any], named: Mapping[str, Any]) -> str:
    """The type as the user wrote it, shortened in the middle if it is long."""
    inside = [short(a) for a in args] + [f"{k}={short(v)}" for k, v in named.items()]
    if not args and not named:
        return f"{cls.__name__}[()]" if usage(cls).endswith("…]") else cls.__name__
    if named:
        return f"{cls.__name__}.of({', '.join(inside)})"
    body = ", ".join(inside)
    if len(body) > LONGEST:
        body = f"{short(args[0])}, …" if len(short(args[0])) < LONGEST else "…"
    return f"{cls.__name__}[{body}]"


def short(value: Any) -> str:
    """A value in a few words."""
    from noeira.nn.core.module import Module

    if isinstance(value, Module):
        text = f"{type(value)!r}()"
    elif isinstance(value, type) and not issubclass(value, Module):
        text = value.__name__
    else:
        text = repr(value) if isinstance(value, type) else getattr(value, "__name__", repr(value))
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def value_text(slot: Slot, value: Any) -> str:
    """The value of a slot inside brackets."""
    return ", ".join(map(repr, value)) if slot.several else repr(value)


def brief(cls: type[Module]) -> str:
    """The text of a type as every node of it carries it: of many modules in brackets the first, and
    how many more there are.
    """
    text = repr(cls)
    parts = any(isinstance(slot, (ModuleSlot, ModulesSlot)) for slot in cls.slots.values())
    if len(text) <= LONGEST or not parts or not cls.is_made or cls.values is None:
        return text
    return type_text(cls, cls.values, brief_value)


def type_text(
    cls: type[Module], values: tuple[Any, ...], shown: Callable[[Slot, Any], str] = value_text
) -> str:
    """The text that evaluates to the type: sizes and what must be given in their order, options
    that are not as usual by name, as what comes after something that is left out.
    """
    pairs = list(zip(cls.slots.values(), values, strict=True))
    # Several modules take what the places before them have left.
    several = place_of_several([slot for slot, _ in pairs])
    plain, named = list[str](), list[str]()
    for position, (slot, value) in enumerate(pairs):
        usual = not slot.required and value == slot.default
        in_place = len(plain) == position and not slot.is_option and not usual
        if in_place if several is None else position <= several:
            plain += filter(None, (shown(slot, value),))
        elif not usual:
            named.append(f"{slot.label}={shown(slot, value)}")
    if named:
        return f"{cls.__name__}.of({', '.join([*plain, *named])})"
    return f"{cls.__name__}[{', '.join(plain)}]"


def brief_value(slot: Slot, value: Any) -> str:
    """The value of a slot, of many modules the first."""
    if slot.several:
        first = brief(value[0]) if isinstance(value[0], type) else repr(value[0])
        more = [f"… {len(value) - 1} more"] if len(value) > 1 else []
        return ", ".join([first, *more])
    return brief(value) if isinstance(value, type) else repr(value)
