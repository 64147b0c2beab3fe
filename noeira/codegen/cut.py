"""The cut of a kernel: the typed options that decide its stages, and what is said of those in an
edited plan or a table that do not fit.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import MISSING, dataclass, field, fields
from functools import lru_cache
from typing import Any, TypeVar

from noeira.errors import VerifyError
from noeira.ir.plan import Stage
from noeira.ir.text.lexer import literal

CutLike = TypeVar("CutLike")
# Whole numbers become literals of kernels, which reckon with `int` and `long`.
MOST = 2**31 - 1


@dataclass(frozen=True)
class Option:
    """One option of a cut: `field` holds it, `name` is written in `stage`, "" for the first one.

    default: what it is where it is not written. least, most: of a whole number, by default up to
    MOST; power: whether only powers of two will do.
    """

    field: str
    name: str
    stage: str
    switch: bool
    default: Any
    least: int
    most: int | None
    power: bool

    def problem(self, value: Any) -> str:
        """What a value must be; empty if it is."""
        if self.switch:
            return "" if isinstance(value, bool) else "true or false"
        most, large = self.most or MOST, whole(value) and value > MOST
        bounded = self.most is not None or large
        bounds = f"from {self.least} to {most}" if bounded else f"of at least {self.least}"
        fits = whole(value) and self.least <= value <= most
        if self.power:
            return "" if fits and not value & (value - 1) else f"a power of two {bounds}"
        return "" if fits else f"a whole number {bounds}"


def option(
    default: Any = MISSING,
    *,
    least: int = 1,
    most: int | None = None,
    power: bool = False,
    stage: str = "",
    name: str = "",
) -> Any:
    """A field of a cut, of type `int` or `bool`. Without a default it is always written, with one
    where it is something else. `stage`, `name`: where it is written, and as what; by default in the
    first stage under the field's own name.
    """
    about = {"least": least, "most": most, "power": power, "stage": stage, "name": name}
    return field(default=default, metadata=about)


@lru_cache
def options_of(kind: type) -> tuple[Option, ...]:
    """The options of a class of cuts, in order."""
    return tuple(
        Option(
            one.name,
            one.metadata.get("name") or one.name,
            one.metadata.get("stage", ""),
            str(one.type) in ("bool", "<class 'bool'>"),
            one.default,
            one.metadata.get("least", 1),
            one.metadata.get("most"),
            one.metadata.get("power", False),
        )
        for one in fields(kind)
        if one.metadata
    )


def written(cut: Any, stage: str = "") -> tuple[tuple[str, Any], ...]:
    """The options that a stage has of a cut: those that are not as usual."""
    values = ((one, getattr(cut, one.field)) for one in options_of(type(cut)))
    return tuple(
        (one.name, value) for one, value in values if one.stage == stage and value != one.default
    )


def read_cut(kind: type[CutLike], stages: Sequence[Stage]) -> CutLike:
    """The cut that stages describe. Raises VerifyError for an option that is missing or not one of
    those it may be.
    """
    values = {}
    for one in options_of(kind):
        stage = (
            stages[0] if not one.stage else next((s for s in stages if s.name == one.stage), None)
        )
        given = dict(stage.options) if stage else {}
        value = given.get(one.name, one.default)
        if value is MISSING:
            raise VerifyError(missing_option(kind, stages, stage, one))
        if one.name in given and (problem := one.problem(value)):
            raise VerifyError(f"{stage}: {one.name} must be {problem}")
        values[one.field] = value
    return kind(**values)


def missing_option(
    kind: type, stages: Sequence[Stage], stage: Stage | None, missing: Option
) -> str:
    """What is said of an option that is not there, perhaps since it is misspelt, or its stage."""
    if stage is None:
        return f"{' '.join(map(str, stages))}: the stage {missing.stage} is missing"
    known = [one.name for one in options_of(kind) if one.stage == missing.stage]
    near = difflib.get_close_matches(missing.name, [n for n, _ in stage.options if n not in known])
    return unknown_option(stage, near[0], known) if near else f"{stage}: {missing.name} is missing"


def unknown_option(stage: Stage, name: str, known: Iterable[str]) -> str:
    """What is said of an option that a stage does not have."""
    known = list(dict.fromkeys(known))
    if not known:
        return f"{stage.name} has no option {name}; it has none"
    near = difflib.get_close_matches(name, known, n=1)
    hint = f": did you mean {near[0]}?" if near else ""
    return f"{stage.name} has no option {name}; it has {', '.join(known)}{hint}"


def check_stages(kind: type, stages: Sequence[Stage], expected: Sequence[Stage]) -> None:
    """Raises VerifyError where stages differ from those that their own cut gives: in their names,
    in an option that follows from others, in one that there is not.
    """
    have, wanted = [s.name for s in stages], [s.name for s in expected]
    if have != wanted:
        text, names = " ".join(map(str, stages)), " and ".join(wanted)
        odd = next((name for name in have if name not in wanted), "")
        near = difflib.get_close_matches(odd, wanted, n=1) if odd else []
        if near:
            raise VerifyError(f"{text}: there is no stage {odd} here: did you mean {near[0]}?")
        raise VerifyError(f"{text}: with these options the stages are {names}")
    for index, (stage, other) in enumerate(zip(stages, expected, strict=True)):
        tags = {stage.name, ""} if index == 0 else {stage.name}
        free = [one.name for one in options_of(kind) if one.stage in tags]
        check_derived(stage, dict(other.options), free)


def check_derived(stage: Stage, wanted: dict[str, Any], free: Sequence[str]) -> None:
    """Raises VerifyError unless the options of a stage are `free` ones, or as they must be."""
    given = dict(stage.options)
    for name, value in given.items():
        if name not in free and name not in wanted:
            raise VerifyError(unknown_option(stage, name, [*wanted, *free]))
        if name not in free and (value != wanted[name] or type(value) is not type(wanted[name])):
            raise VerifyError(f"{stage}: {name} must be {literal(wanted[name])} here")
    for name in wanted:
        if name not in free and name not in given:
            raise VerifyError(f"{stage}: {name} is missing, it must be {wanted[name]}")


def whole(value: Any) -> bool:
    """Whether an option is a whole number."""
    return isinstance(value, int) and not isinstance(value, bool)
