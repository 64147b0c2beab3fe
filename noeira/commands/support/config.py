"""The file that `noeira train` reads: its sections and keys, checked and made what the API takes.

Paths in it are relative to its folder, or begin with ~. Nothing is evaluated: what is written like
a call, such as `AdamW(lr=1e-3)`, is read as on a command line.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from noeira.commands.support import written
from noeira.commands.support.files import read_text
from noeira.commands.support.network import load_network
from noeira.commands.support.usage import UsageError, known_name, no_such
from noeira.errors import NoeiraError
from noeira.nn import Group, Metric
from noeira.runtime.targets import TARGETS
from noeira.training import EarlyStopping

# `losses.py:Huber`: a file, and what it has.
IN_FILE = re.compile(r"(?P<file>[^:()\[\]]+\.py):")
METRICS = written.exported(Metric)


@dataclass(frozen=True)
class Key:
    """What a key takes. kinds: types of TOML; wanted: them in words; read: makes of a value what
    the API takes, given the folder of the file too.
    """

    kinds: tuple[type, ...]
    wanted: str
    read: Callable[[Any, Path], Any] = lambda value, folder: value


def by_name(read: Callable[[str], Any], example: str) -> Key:
    """A key whose text names a thing, perhaps with options, perhaps in a file."""
    return Key((str,), f"a text such as {example!r}", lambda v, folder: read(located(v, folder)))


def located(text: str, folder: Path) -> str:
    """A text in which the file that it names is found from anywhere."""
    found = IN_FILE.match(text)
    return text if found is None else f"{inside(found['file'], folder)}{text[found.end() - 1 :]}"


def inside(text: str, folder: Path) -> str:
    """A path, found from anywhere; `~` is the user's home."""
    return str(folder / Path(text).expanduser())


def shapes(value: Sequence[Any], folder: Path) -> Any:
    """The shape of a sample, `[3, 32, 32]`, or of several inputs, `[[3, 32], [10]]`."""
    return tuple(shapes(one, folder) if isinstance(one, list) else one for one in value)


def groups(value: Mapping[str, Any], folder: Path) -> dict[str, Group]:
    """Groups by pattern of names. Raises UsageError."""
    return {pattern: made(str(text), "group", Group) for pattern, text in value.items()}


def metrics(value: Sequence[Any], folder: Path) -> list[Any]:
    """Metric types. Raises UsageError."""
    return [written.value(located(str(text), folder), "metric", METRICS) for text in value]


def stopping(text: str) -> Any:
    """An EarlyStopping. Raises UsageError or OptionError."""
    return made(text, "rule to stop by", EarlyStopping)


def made(text: str, what: str, kind: type) -> Any:
    """A value of a frozen class, written as a call. Raises UsageError, or its own error."""
    found = written.value(text, what, {kind.__name__: kind})
    return found() if isinstance(found, type) else found


TEXT = Key((str,), "a text")
PATH = Key((str,), "a path", inside)
NUMBER = Key((int,), "a whole number")
FLAG = Key((bool,), "true or false")
SECTIONS: dict[str, dict[str, Key]] = {
    "model": {
        "type": by_name(load_network, "net.py:MLP"),
        "input": Key((list,), "a list such as [3, 32, 32]", shapes),
        "init": by_name(written.initial, "Normal[0.0, 0.02]"),
    },
    "data": {
        "source": TEXT,
        **dict.fromkeys(("flat", "raw"), FLAG),
        **dict.fromkeys(("train", "test", "x", "y", "test_x", "test_y"), PATH),
    },
    "trainer": {
        "loss": by_name(written.loss, "CrossEntropy"),
        "optimizer": by_name(written.optimizer, "AdamW(lr=1e-3)"),
        "schedule": by_name(written.schedule, "Cosine(steps=1000)"),
        "clip": by_name(written.clip, "ClipNorm(1.0)"),
        "groups": Key((dict,), 'a table such as { "*.bias" = "Group(frozen=true)" }', groups),
        "accumulate": NUMBER,
        "ema": Key((int, float), "a number"),
        "fold": FLAG,
        "batch": NUMBER,
        "dtype": TEXT,
        "metrics": Key((list,), 'a list such as ["Accuracy", "TopK[5]"]', metrics),
        "seed": NUMBER,
        "target": Key((str,), "a text", lambda v, folder: known_name(v, TARGETS, "target")),
        "choices": PATH,
        "epochs": NUMBER,
        "shuffle": FLAG,
        "evaluate_every": NUMBER,
        "stop": by_name(stopping, "EarlyStopping(patience=5)"),
        "folder": PATH,
        "save_every": NUMBER,
        "best": TEXT,
        "tensorboard": FLAG,
        "plot": FLAG,
    },
}


@dataclass(frozen=True)
class Config:
    """A file, read. values: of each section, by key, as the API takes them."""

    path: str
    values: Mapping[str, Mapping[str, Any]]

    def wrong(self, section: str, message: object) -> UsageError:
        """The error for something in a section."""
        return UsageError(f"{self.path}, [{section}]: {message}")


def read_config(path: str, changes: Sequence[str]) -> Config:
    """A file, with changes such as `trainer.epochs=3` in place of what it says.

    Raises UsageError that names the file, the section and the key.
    """
    try:
        found = tomllib.loads(read_text(path))
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{path}: it is no TOML: {error}") from None
    for section, values in found.items():
        if section not in SECTIONS:
            raise UsageError(f"{path}: {no_such('section', section, SECTIONS)}")
        if not isinstance(values, dict):
            raise UsageError(f"{path}: {section} must be a section, [{section}]")
    changed = {(section, key): value for section, key, value in map(change, changes)}
    for (section, key), value in changed.items():
        found.setdefault(section, {})[key] = value
    folder, values = Path(path).absolute().parent, {}
    for section, keys in SECTIONS.items():
        values[section] = {
            key: read_value(
                f"--set {section}.{key}" if (section, key) in changed else f"{path}, [{section}]",
                key,
                value,
                keys,
                folder,
            )
            for key, value in found.get(section, {}).items()
        }
    return Config(path, values)


def read_value(place: str, key: str, value: Any, keys: Mapping[str, Key], folder: Path) -> Any:
    """What the API takes for a value. Raises UsageError that begins with its place."""
    if key not in keys:
        raise UsageError(f"{place}: {no_such('key', key, keys)}")
    wanted = keys[key]
    if not isinstance(value, wanted.kinds) or (isinstance(value, bool) and wanted is not FLAG):
        shown = "true" if value is True else "false" if value is False else repr(value)
        raise UsageError(f"{place}: {key} must be {wanted.wanted}, not {shown}")
    try:
        return wanted.read(value, folder)
    except NoeiraError as error:
        raise UsageError(f"{place}: {key}: {error}") from error


def change(text: str) -> tuple[str, str, Any]:
    """Section, key and value of `trainer.epochs=3`; what is no value of TOML is a text. Raises
    UsageError.
    """
    name, equals, value = text.partition("=")
    section, dot, key = name.strip().partition(".")
    if not equals or not dot or section not in SECTIONS:
        raise UsageError(
            f"--set {text}: write SECTION.KEY=VALUE, as in --set trainer.epochs=3; sections are "
            f"{', '.join(SECTIONS)}"
        )
    try:
        return section, key, tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        return section, key, value
