"""Callbacks: a caller's own functions and objects that are told of the moments of a training."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable
from typing import Any

from noeira.errors import NoeiraError, OptionError
from noeira.training.measure import EarlyStopping

# The moments, each given its record: a Step, an Evaluation, an Epoch.
MOMENTS = ("on_step", "on_evaluation", "on_epoch")
BOOLEANS = ("bool", "bool_")


class Callbacks:
    """What is called at each moment, in the order in which it was given. Raises OptionError for
    what can be called at none, or has a name like that of a moment.
    """

    def __init__(self, given: Any) -> None:
        for one in given if isinstance(given, (list, tuple)) else (given,):
            if isinstance(one, EarlyStopping) or one is EarlyStopping:
                raise OptionError(
                    "EarlyStopping is no callback, it has an option of its own: "
                    "write stop=EarlyStopping(…)"
                )
        if not isinstance(given, (list, tuple)):
            raise OptionError(f"callbacks is a list: write [{called(given)}]")
        self.moments: dict[str, list[tuple[str, Callable[[Any], Any]]]] = {m: [] for m in MOMENTS}
        for callback in given:
            for moment, function in moments_of(callback):
                self.moments[moment].append((called(callback), function))

    def wants(self, moment: str) -> bool:
        """Whether any is called then."""
        return bool(self.moments[moment])

    def tell(self, moment: str, record: Any) -> str:
        """Call those of a moment; gives the name of the first that asks to stop, or "".

        Raises NoeiraError that says which one failed.
        """
        asked = ""
        for name, function in self.moments[moment]:
            try:
                answer = function(record)
            except Exception as error:
                raise NoeiraError(
                    f"the callback {name} failed in {moment}, after step {record.step}: "
                    f"{type(error).__name__}: {error}; what was learned is kept"
                ) from error
            if answer is not None and type(answer).__name__ not in BOOLEANS:
                raise NoeiraError(
                    f"the callback {name} gave {answer!r} in {moment}: it gives True to stop, "
                    "False or nothing to go on"
                )
            asked = asked or (name if answer else "")
        return asked


def moments_of(callback: Any) -> Iterable[tuple[str, Callable[[Any], Any]]]:
    """The moments of a callback, and what is called then; of a function `on_epoch` alone."""
    names = [name for name in dir(callback) if name.startswith("on_")]
    for name in names:
        if name not in MOMENTS:
            near = difflib.get_close_matches(name, MOMENTS, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise OptionError(
                f"the callback {called(callback)} has {name}, which is no moment; there are "
                f"{', '.join(MOMENTS)}{hint}"
            )
    if isinstance(callback, type):
        raise OptionError(f"callbacks takes objects: write {called(callback)}()")
    if names:
        return [(name, getattr(callback, name)) for name in names]
    if callable(callback):
        return [("on_epoch", callback)]
    raise OptionError(
        f"{callback!r} is no callback: give a function of an epoch, or an object with "
        f"{', '.join(MOMENTS[:-1])} or {MOMENTS[-1]}"
    )


def called(callback: Any) -> str:
    """What messages call a callback: a function by its name, an object by its type."""
    return getattr(callback, "__qualname__", type(callback).__qualname__)
