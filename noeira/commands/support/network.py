"""The network that a command works on, by its file or module and its name."""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any

from noeira.commands.support.usage import UsageError, meant, nearest
from noeira.errors import CompositionError, NoeiraError
from noeira.nn import Module

# Endings of dumped stages.
DUMPED = (".nir", ".plan", ".c", ".so", ".cu", ".cubin")


def add_imports(parser: argparse.ArgumentParser) -> None:
    """The option that names files with ops of a user's own, for what is given no network."""
    parser.add_argument(
        "--import",
        dest="imports",
        metavar="FILE.py",
        action="append",
        default=[],
        help="a Python file to run first: one that defines ops of your own",
    )


def run_imports(args: argparse.Namespace) -> None:
    """Run the files that were named. Raises NoeiraError if that cannot be."""
    for file in args.imports:
        load_module(file)


def load_network(text: str) -> type[Module]:
    """The network type that `path.py:Name` or `package.module:Name` names.

    Raises NoeiraError with what there is instead.
    """
    place, colon, name = text.rpartition(":")
    if not colon or not name or "/" in name or "\\" in name:
        raise UsageError(f"{text}: {without_name(text)}")
    module = load_module(place)
    found: Any = module
    for part in name.split("."):
        found = getattr(found, part, None)
    if isinstance(found, Module):
        found = type(found)
    if not isinstance(found, type) or not issubclass(found, Module):
        what = f"has no {name}" if found is None else f"has {name}, but it is no network"
        raise UsageError(f"{place} {what}{instead(module, name)}")
    found.need_parameters(text)
    return found


def without_name(place: str) -> str:
    """What to write where only a file or module was named."""
    module, _, last = place.rpartition(".")
    if f".{last}" in DUMPED:
        return "expected a network, such as net.py:MLP; `noeira run` takes dumped stages"
    if last in own_networks(module):
        return f"write a colon before the network's name, {module}:{last}"
    known = own_networks(place.rstrip(":"))
    example = known[0] if known else "Name"
    others = f" (there are {', '.join(known)})" if len(known) > 1 else ""
    return f"write the network's name after a colon, {place.rstrip(':')}:{example}{others}"


def own_networks(place: str) -> list[str]:
    """The names of the networks of a file or module; none if it is no such thing."""
    try:
        return networks(load_module(place)) if place else []
    except NoeiraError:
        return []


def instead(module: ModuleType, name: str) -> str:
    """What networks a module has."""
    known = networks(module)
    hint = meant(name, known)
    if hint:
        return f"{hint} It has {', '.join(known)}"
    return f"; it has {', '.join(known)}" if known else "; it has no networks"


def networks(module: ModuleType) -> list[str]:
    """The names of a module's own networks, in the order of their definition."""
    own = list[str]()
    for name, value in vars(module).items():
        if not isinstance(value, type) or not issubclass(value, Module) or value.role != "layer":
            continue
        if value.is_complete and (value.values is not None or value.__module__ == module.__name__):
            own.append(name)
    return own


def load_module(place: str) -> ModuleType:
    """A module by file or dotted name. Raises NoeiraError if it is not there or cannot be run."""
    path = Path(place)
    by_file = path.suffix == ".py" or "/" in place or "\\" in place
    if by_file and not path.is_file():
        raise UsageError(f"there is no file {place}{near(path)}")
    # As Python itself does for scripts: modules beside the file can be imported.
    sys.path.insert(0, str(path.parent.absolute()) if by_file else str(Path.cwd()))
    try:
        return from_file(path) if by_file else importlib.import_module(place)
    except ModuleNotFoundError as error:
        if not by_file and error.name and f"{place}.".startswith(f"{error.name}."):
            raise UsageError(
                f"there is no module {place} (a file is written ./{place}.py)"
            ) from error
        raise NoeiraError(f"{place} cannot be imported: {error}") from error
    except NoeiraError as error:
        raise CompositionError(f"{place}{line_of(error, path)}: {error}") from error
    except (Exception, SystemExit) as error:
        what = f"{type(error).__name__}: {error}"
        raise NoeiraError(f"{place}{line_of(error, path)} cannot be imported: {what}") from error


def from_file(path: Path) -> ModuleType:
    """Run a file as a module."""
    name = f"noeira_network_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def line_of(error: BaseException, path: Path) -> str:
    """Where in the user's file an error came up: the last of its lines that was running."""
    frames = traceback.extract_tb(error.__traceback__)
    places = [(frame.filename, frame.lineno) for frame in frames]
    if isinstance(error, SyntaxError) and error.filename:
        places.append((error.filename, error.lineno))
    lines = [line for name, line in places if Path(name) == path.absolute()]
    return f", line {lines[-1]}" if lines else ""


def near(path: Path) -> str:
    """The file with the most similar name in the folder where one was looked for, or the only one
    of its kind there.
    """
    folder = path.parent
    names = [p.name for p in folder.glob(f"*{path.suffix}")] if folder.is_dir() else []
    found = nearest(path.name, names) or (names[0] if len(names) == 1 and path.suffix else "")
    return f"; did you mean {folder / found}?" if found else ""
