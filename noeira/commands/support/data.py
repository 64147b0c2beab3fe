"""The data that a configuration names: a data set of noeira's, or files of NumPy arrays."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from noeira.commands.support.config import Config
from noeira.commands.support.files import unreadable
from noeira.commands.support.usage import no_such
from noeira.errors import DataError

if TYPE_CHECKING:
    import numpy as np

# Data sets of noeira's, by source: the class, and what is said of how its images are given.
SOURCES = {
    "mnist": ("MNIST", ("flat", "raw")),
    "fashion-mnist": ("FashionMNIST", ("flat", "raw")),
    "cifar10": ("CIFAR10", ("raw",)),
}
FORMS = tuple(dict.fromkeys(form for _, forms in SOURCES.values() for form in forms))
WAYS = (
    'name a data set, source = "mnist"; or files, train = "train.npz" and test = "test.npz", each '
    'with x and y; or x = "x.npy" and y = "y.npy", and the same with test_'
)


def data_of(config: Config) -> tuple[Any, Any]:
    """Training and test data, None for test data that there are not. Raises UsageError or
    DataError.
    """
    given = config.values["data"]
    if "source" in given:
        return data_set(config, given)
    for form in FORMS:
        if form in given:
            raise config.wrong("data", f'{form} has no effect without source = "mnist"')
    archives, arrays = (
        {"train", "test"} & given.keys(),
        {"x", "y", "test_x", "test_y"} & given.keys(),
    )
    if archives and arrays:
        raise config.wrong("data", f"{min(archives)} does not go with {min(arrays)}: {WAYS}")
    if "train" in given:
        test = given.get("test")
        return archive(given["train"]), None if test is None else archive(test)
    pairs = {}
    for x, y in (("x", "y"), ("test_x", "test_y")):
        there = [name for name in (x, y) if name in given]
        if len(there) == 1:
            lacking = y if there == [x] else x
            raise config.wrong("data", f"{lacking} is missing, which goes with {there[0]}")
        pairs[x] = (array(given[x]), array(given[y])) if there else None
    if pairs["x"] is None:
        raise config.wrong("data", f"there are no data to train on: {WAYS}")
    return pairs["x"], pairs["test_x"]


def data_set(config: Config, given: Mapping[str, Any]) -> tuple[Any, Any]:
    """One of noeira's own. Raises UsageError or DataError."""
    from noeira import datasets

    source = given["source"].lower()
    if source not in SOURCES:
        raise config.wrong("data", no_such("source", given["source"], list(SOURCES)))
    name, forms = SOURCES[source]
    others = [name for name in given if name not in ("source", *forms)]
    if others:
        raise config.wrong("data", f'{others[0]} has no effect with source = "{source}"')
    found = getattr(datasets, name)(**{form: given[form] for form in forms if form in given})
    return found.train, found.test


def archive(path: str) -> tuple[np.ndarray, np.ndarray]:
    """x and y of an `.npz` file. Raises UsageError or DataError."""
    found = loaded(path)
    if not isinstance(found, dict):
        raise DataError(f"{path} holds one array; it must be an .npz file with x and y")
    if not {"x", "y"} <= found.keys():
        raise DataError(f"{path} has {', '.join(found) or 'nothing'}; it must have x and y")
    return found["x"], found["y"]


def array(path: str) -> np.ndarray:
    """The array of an `.npy` file. Raises UsageError or DataError."""
    found = loaded(path)
    if isinstance(found, dict):
        raise DataError(f"{path} holds {', '.join(found)}; it must be an .npy file, one array")
    return found


def loaded(path: str) -> Any:
    """What a file of NumPy's holds: an array, or arrays by name. Raises UsageError or DataError."""
    import numpy as np

    try:
        found = np.load(path, allow_pickle=False)
    except OSError as error:
        raise unreadable(path, error) from None
    except (ValueError, EOFError, zipfile.BadZipFile):
        raise DataError(f"{path} is no file of NumPy's, or it is damaged") from None
    if isinstance(found, np.ndarray):
        return found
    with found:
        return {name: found[name] for name in found.files}
