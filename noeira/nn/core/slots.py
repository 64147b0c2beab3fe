"""Type parameters: how a module declares them, and the one message for each value that does not
belong there.

class Conv(Module):
    IN, OUT = size(), size()          # positive whole numbers, must be given
    STRIDE = size(1)                  # with a default
    AXIS = axis(-1)                   # an axis counted from the end
    BIAS = flag(True)                 # True or False
    SLOPE = number(0.01)              # a finite number
    MODE = choice("same", "valid")    # one of a few words, the first by default
    EPS = number(1e-5, above=0.0)     # a number greater than 0
    STD = numbers(above=0.0)          # finite numbers in a tuple, one or more
    INNER = module()                  # a module type
    LAYERS = modules()                # module types, one or more
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, overload

from noeira.errors import CompositionError, NoeiraError
from noeira.ir.numbers import real_number, whole_number

if TYPE_CHECKING:
    from noeira.nn.core.module import Module


class Missing:
    """The default of a parameter that must be given."""

    def __repr__(self) -> str:
        return "MISSING"


MISSING = Missing()


class Slot:
    """A type parameter; its attribute name in capitals is its name in signatures."""

    what: ClassVar[str] = "a value"
    several: ClassVar[bool] = False
    each: ClassVar[str] = "value"

    def __init__(self, default: Any = MISSING) -> None:
        self.default, self.name = default, ""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, instance: object, owner: type) -> Any:
        """A type that has no parameters yet shows the defaults."""
        return self if self.required else self.default

    def __repr__(self) -> str:
        return f"<{self.label}: {self.what}>"

    @property
    def required(self) -> bool:
        """Whether it must be given."""
        return self.default is MISSING

    @property
    def is_option(self) -> bool:
        """Whether it is written by its name, and left out where it is as usual."""
        return not self.required

    @property
    def label(self) -> str:
        """The name as messages write it: options in lower case, sizes in capitals."""
        return self.name.lower()

    def read(self, value: Any, written: str) -> Any:
        """The value in its one form.

        Raises CompositionError; `written` is the type as the user wrote it.
        """
        raise NotImplementedError

    @property
    def names(self) -> tuple[str, ...]:
        """What expressions call it, or the numbers that it is."""
        return (self.name,)

    def lengths(self, value: Any) -> dict[str, int]:
        """The lengths that a value gives expressions of axes, by their names."""
        return {self.name: value} if type(value) is int else {}

    def refuse(self, value: Any, written: str, advice: str = "") -> CompositionError:
        """The error for a value that does not belong here."""
        also = " or None" if self.default is None else ""
        tail = f"; {advice}" if advice else ""
        return CompositionError(
            f"{written}: {self.label} must be {self.what}{also}, not {described(value)}{tail}"
        )


class SizeSlot(Slot):
    """A whole number of at least `least`."""

    def __init__(self, default: Any = MISSING, least: int = 1) -> None:
        super().__init__(default)
        self.least = least

    @property
    def what(self) -> str:  # type: ignore[override]
        """What belongs here."""
        return (
            "a positive whole number"
            if self.least == 1
            else f"a whole number of at least {self.least}"
        )

    @property
    def is_option(self) -> bool:
        # What may be left out and is the length of an axis is written in its place.
        return not self.required and (self.default is not None or self.least == 0)

    @property
    def label(self) -> str:
        return self.name.lower() if self.is_option else self.name

    def read(self, value: Any, written: str) -> Any:
        if value is None and self.default is None:
            return None
        whole = whole_number(value)
        if whole is None:
            raise self.refuse(value, written, advice_for_whole(value))
        if whole < self.least:
            raise self.refuse(whole, written)
        return whole


class AxisSlot(Slot):
    """An axis of one sample, counted from the end."""

    what = "an axis counted from the end: -1 for the last, -2, …"

    def read(self, value: Any, written: str) -> Any:
        place = whole_number(value)
        if place is None or place >= 0:
            raise self.refuse(value, written)
        return place


class FlagSlot(Slot):
    """True or False."""

    what = "True or False"

    def read(self, value: Any, written: str) -> Any:
        if not isinstance(value, bool):
            raise self.refuse(value, written)
        return value


class NumberSlot(Slot):
    """A finite number from `low` to `high`, both included, and greater than `above`."""

    def __init__(
        self,
        default: Any = MISSING,
        low: float = -math.inf,
        high: float = math.inf,
        above: float = -math.inf,
    ) -> None:
        super().__init__(default)
        if low != -math.inf and above != -math.inf:
            raise CompositionError(
                f"number: low={low:g} allows {low:g}, above={above:g} does not allow {above:g}; "
                f"give one of the two"
            )
        self.low, self.high, self.above = low, high, above

    @property
    def what(self) -> str:  # type: ignore[override]
        """What belongs here."""
        if self.low == self.above == -math.inf and self.high == math.inf:
            return "a finite number"
        if self.above != -math.inf:
            most = "" if self.high == math.inf else f" and at most {self.high:g}"
            return f"a number greater than {self.above:g}{most}"
        if self.high == math.inf:
            return f"a number of at least {self.low:g}"
        if self.low == -math.inf:
            return f"a number of at most {self.high:g}"
        return f"a number from {self.low:g} to {self.high:g}"

    def read(self, value: Any, written: str) -> Any:
        real = real_number(value)
        if real is None:
            raise self.refuse(value, written)
        inside = self.low <= real <= self.high and real > self.above
        if not math.isfinite(real) or not inside:
            raise self.refuse(real, written)
        return real + 0.0  # -0.0 and 0.0 are one type


class NumbersSlot(NumberSlot):
    """One such number or more, in a tuple; one alone may be written without."""

    @property
    def what(self) -> str:  # type: ignore[override]
        one = super().what.removeprefix("a finite number").removeprefix("a number").strip()
        return f"a tuple of numbers, such as (0.5, 0.25){f', each {one}' if one else ''}"

    def read(self, value: Any, written: str) -> Any:
        items = value if isinstance(value, (tuple, list)) else (value,)
        if not items:
            raise self.refuse(value, written)
        return tuple(super(NumbersSlot, self).read(item, written) for item in items)


class ChoiceSlot(Slot):
    """One of a few words, the first of them by default."""

    def __init__(self, *words: str) -> None:
        super().__init__(words[0])
        self.words = words

    @property
    def what(self) -> str:  # type: ignore[override]
        """What belongs here."""
        *most, last = map(repr, self.words)
        return f"{', '.join(most)} or {last}"

    def read(self, value: Any, written: str) -> Any:
        if value not in self.words:
            raise self.refuse(value, written)
        return value


class ModuleSlot(Slot):
    """A module type of one role."""

    what = "a module type"

    def __init__(self, role: str) -> None:
        super().__init__()
        self.role = role

    def read(self, value: Any, written: str) -> Any:
        from noeira.nn.core.parts import module_type

        return module_type(value, written, None, self.role)


class ModulesSlot(Slot):
    """Module types of one role, one or more."""

    what = "module types"
    several, each = True, "module type"

    def __init__(self, role: str) -> None:
        super().__init__()
        self.role = role

    def read(self, value: Any, written: str) -> Any:
        from noeira.nn.core.parts import module_type

        return tuple(module_type(part, written, i, self.role) for i, part in enumerate(value))


class Derived:
    """A part that follows from the type parameters; made by `derived`."""

    def __init__(self, rule: Callable[[Any], Any]) -> None:
        self.rule, self.name = rule, ""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, instance: object, owner: Any) -> Any:
        """Raises CompositionError if the rule fails."""
        try:
            return self.rule(owner)
        except NoeiraError:
            raise
        except Exception as error:
            raise CompositionError(
                f"{owner!r}: what {self.name} is derived by fails with {type(error).__name__}: "
                f"{error}"
            ) from error


@overload
def size(default: None, least: int = 1) -> int | None: ...
@overload
def size(default: int | Missing = MISSING, least: int = 1) -> int: ...
def size(default: Any = MISSING, least: int = 1) -> Any:
    """A type parameter, a whole number of at least `least`; with a default it is an option."""
    return SizeSlot(default, least)


def axis(default: int = -1) -> int:
    """A type parameter that is an axis of one sample, counted from the end: -1 is the last."""
    slot: Any = AxisSlot(default)
    return slot


def flag(default: bool) -> bool:
    """A type parameter that is True or False."""
    slot: Any = FlagSlot(default)
    return slot


def number(
    default: Any = MISSING,
    low: float = -math.inf,
    high: float = math.inf,
    above: float = -math.inf,
) -> float:
    """A type parameter that is a finite number: `number(0.5, low=0.0, high=1.0)` is from 0 to 1,
    both included; `number(1e-5, above=0.0)` is greater than 0.

    Raises CompositionError if both `low` and `above` are given.
    """
    slot: Any = NumberSlot(default, low, high, above)
    return slot


def numbers(
    default: Any = MISSING,
    low: float = -math.inf,
    high: float = math.inf,
    above: float = -math.inf,
) -> tuple[float, ...]:
    """A type parameter that is a tuple of such numbers, one or more: `numbers(above=0.0)` are each
    greater than 0. One alone may be written without the tuple.
    """
    slot: Any = NumbersSlot(default, low, high, above)
    return slot


def choice(default: str, *others: str) -> str:
    """A type parameter that is one of a few words."""
    slot: Any = ChoiceSlot(default, *others)
    return slot


def module(role: str = "layer") -> type[Module]:
    """A type parameter that is a module type.

    role: of the module, `layer` or `loss`.
    """
    slot: Any = ModuleSlot(role)
    return slot


def modules(role: str = "layer") -> tuple[type[Module], ...]:
    """Type parameters that are module types, one or more; options that follow are given by name.

    role: of these modules, `layer` or `loss`.
    """
    slot: Any = ModulesSlot(role)
    return slot


def derived(rule: Callable[[Any], Any]) -> Any:
    """What follows from the type parameters, in place of a parameter of the parent:

        class Block(Residual):
            D = size()
            INNER = derived(lambda b: Sequential[LinearReLU[b.D, 4 * b.D], Linear[4 * b.D, b.D]])

    The rule is given the type, with its parameters.
    """
    return Derived(rule)


def described(value: Any) -> str:
    """A value as a message shows it."""
    from noeira.nn.core.module import Module

    if isinstance(value, type) and issubclass(value, Module):
        return f"the module type {value!r}"
    if isinstance(value, type):
        return f"the class {value.__name__}"
    return repr(value)


def advice_for_whole(value: Any) -> str:
    """What to write instead, where that is plain."""
    if isinstance(value, float) and value.is_integer() and value >= 1:
        return f"write {int(value)}"
    if isinstance(value, str) and value.strip().isdigit():
        return f"write {int(value)}, without quotes"
    return ""
