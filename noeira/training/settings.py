"""What `fit` was asked for, each part checked before anything is compiled."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict

from noeira.errors import OptionError
from noeira.options import check_names, counting_number
from noeira.training.callbacks import Callbacks
from noeira.training.measure import EarlyStopping


class FitOptions(TypedDict, total=False):
    """What `fit` is told beside its data, their order and the number of epochs; see there."""

    evaluate_every: int | None
    stop: EarlyStopping | type[EarlyStopping] | None
    callbacks: Sequence[Any]
    folder: str | os.PathLike[str] | None
    resume: bool
    save_every: int | None
    best: str | None
    tensorboard: bool
    plot: bool


DEFAULTS: FitOptions = {
    "evaluate_every": None,
    "stop": None,
    "callbacks": (),
    "folder": None,
    "resume": False,
    "save_every": None,
    "best": None,
    "tensorboard": False,
    "plot": False,
}
# Options that are about the files of a folder.
OF_FOLDER = ("resume", "save_every", "best", "tensorboard", "plot")
# Option -> the package that it needs, and the extra of noeira that has it.
PACKAGES = {"tensorboard": ("tensorboardX", "tensorboard"), "plot": ("matplotlib", "viz")}


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The options of one `fit`, see there. Made by `settings_of`."""

    epochs: int
    shuffle: bool
    evaluate_every: int | None
    stop: EarlyStopping | None
    callbacks: Callbacks
    folder: Path | None
    resume: bool
    save_every: int | None
    best: str | None
    tensorboard: bool
    plot: bool

    @property
    def measure(self) -> tuple[str, str | None]:
        """The option that says what is best, and what it says."""
        if self.stop is not None:
            return "EarlyStopping: measure", self.stop.measure
        return "best", self.best

    @property
    def least(self) -> float:
        """What an improvement must at least be."""
        return 0.0 if self.stop is None else self.stop.least


def settings_of(tested: bool, epochs: Any, shuffle: Any, options: Mapping[str, Any]) -> Settings:
    """The settings. tested: whether there are test data. Raises OptionError for one that cannot be
    or could have no effect, and if a package is missing.
    """
    check_names(options, "fit", FitOptions, ("train", "test", "epochs", "shuffle", "progress"))
    given: dict[str, Any] = {**DEFAULTS, **options, "shuffle": shuffle}
    found = dict(given)
    found["epochs"] = counting_number("epochs", epochs)
    for name in ("evaluate_every", "save_every"):
        if given[name] is not None:
            found[name] = counting_number(name, given[name])
    for name in ("shuffle", "resume", "tensorboard", "plot"):
        if not isinstance(given[name], bool):
            raise OptionError(f"{name} must be True or False, not {given[name]!r}")
    found["callbacks"] = Callbacks(given["callbacks"])
    found["folder"] = folder_of(given["folder"])
    found["stop"] = given["stop"]() if given["stop"] is EarlyStopping else given["stop"]
    if not isinstance(found["stop"], EarlyStopping | None):
        raise OptionError(f"stop must be EarlyStopping(patience=5, …), not {given['stop']!r}")
    check_effects(tested, found)
    check_packages(found)
    return Settings(**found)


def check_effects(tested: bool, given: Mapping[str, Any]) -> None:
    """Raises OptionError for an option that could have no effect."""
    if given["evaluate_every"] is not None and not tested:
        raise OptionError(
            "evaluate_every has no effect without test data: fit(train, test, evaluate_every=…)"
        )
    if given["folder"] is None:
        for name in OF_FOLDER:
            if given[name] not in (None, False):
                raise OptionError(
                    f"{name} has no effect without a folder: fit(…, folder='runs/1', {name}=…)"
                )
    if given["stop"] is not None and given["best"] is not None:
        raise OptionError(
            "best has no effect beside stop, whose measure says what is best: "
            f"EarlyStopping(…, measure={given['best']!r})"
        )


def folder_of(given: Any) -> Path | None:
    """The folder. Raises OptionError."""
    if given is None or (isinstance(given, (str, os.PathLike)) and os.fspath(given)):
        return None if given is None else Path(given)
    raise OptionError(f"folder must be the name of a folder, not {given!r}")


def check_packages(given: Mapping[str, Any]) -> None:
    """Raises OptionError with what to install for an option whose package is missing."""
    for name, (package, extra) in PACKAGES.items():
        if given[name] and importlib.util.find_spec(package) is None:
            raise OptionError(f"{name}=True needs {package}: pip install 'noeira[{extra}]'")
