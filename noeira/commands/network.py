"""The network that a command works on, and the options that commands on networks share."""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import sys
import traceback
from collections.abc import Callable
from dataclasses import fields
from difflib import get_close_matches
from pathlib import Path
from types import ModuleType
from typing import Any

from noeira.codegen.arch import ARCHS, DEFAULT_ARCH
from noeira.codegen.target import ISAS
from noeira.commands.usage import UsageError, in_any_case, named, positive, reading, sample_shapes
from noeira.errors import CompositionError, NoeiraError
from noeira.ir.choices import NO_CHOICES
from noeira.nn import (
    MSE,
    SGD,
    Adam,
    AdamW,
    CrossEntropy,
    Deterministic,
    Kaiming,
    Module,
    Normal,
    ScaledKaiming,
    SoftCrossEntropy,
    TruncNormalIn,
    Xavier,
    Zero,
)
from noeira.nn.core.init import initializer
from noeira.report.stages import Stages, stages_of
from noeira.runtime.targets import first_of_each_language

# Endings of dumped stages, which `noeira run` takes.
DUMPED = (".nir", ".plan", ".c", ".so", ".cu", ".cubin")
LOSSES = {kind.__name__: kind for kind in (CrossEntropy, SoftCrossEntropy, MSE)}
OPTIMIZERS = {"adam": Adam, "adamw": AdamW, "sgd": SGD}
INITIALIZERS = {
    kind.__name__: kind
    for kind in (Kaiming, ScaledKaiming, Xavier, Normal, TruncNormalIn, Zero, Deterministic)
}


def add_model(parser: argparse.ArgumentParser, choices: bool = True, target: bool = True) -> None:
    """The network, and the options that decide its step; with --choices and --target unless told
    otherwise.
    """
    parser.add_argument("model", metavar="MODEL", help="path.py:Name or package.module:Name")
    add_options(parser, choices, target)


def add_options(parser: argparse.ArgumentParser, choices: bool = True, target: bool = True) -> None:
    """The options that decide a network's step, and what it is written for."""
    add = parser.add_argument_group("the training step").add_argument
    add_step(add)
    add(
        "--isa",
        type=str.lower,
        choices=tuple(ISAS),
        help="vector unit that C is for (default: this machine's)",
    )
    if target:
        add(
            "--target",
            choices=[target.name for target in first_of_each_language().values()],
            default="cpu",
            help="what the kernels are written for (default: cpu)",
        )
        add_arch(add)
    if choices:
        add(
            "--choices",
            metavar="FILE",
            help="table of tuned choices, from noeira tune (default: that of NOEIRA_CHOICES)",
        )


def add_arch(add: Callable[..., object]) -> None:
    """The kind of GPU."""
    add(
        "--arch",
        type=str.lower,
        choices=tuple(ARCHS),
        help=f"GPU that CUDA is for (default: {DEFAULT_ARCH})",
    )


def add_step(add: Callable[..., object]) -> None:
    """What the network is given, and what a step of it is."""
    add(
        "--batch",
        type=reading(positive, "a whole number of at least 1"),
        default=100,
        metavar="N",
        help="rows of a batch (default: 100)",
    )
    add(
        "--input",
        type=reading(sample_shapes, "a shape such as 3,32,32 (several: 3,32,32;10)"),
        metavar="SHAPE",
        help="shape of one sample, where the type leaves it open: 3,32,32 (several: 3,32,32;10)",
    )
    add(
        "--loss",
        type=reading(loss, "a loss"),
        default=CrossEntropy,
        metavar="LOSS",
        help=f"{', '.join(LOSSES)} or none (default: CrossEntropy); "
        "options: CrossEntropy:smoothing=0.1",
    )
    add(
        "--optimizer",
        type=reading(optimizer, "an optimizer"),
        default=Adam(),
        metavar="OPT",
        help=f"{', '.join(OPTIMIZERS)} or none (default: adam); options: adam:lr=0.001,beta1=0.9",
    )
    add(
        "--dtype",
        type=str.lower,
        choices=("f32", "f64"),
        default="f32",
        help="of parameters (default: f32)",
    )
    add(
        "--init",
        type=reading(initial, "an initialiser"),
        default=Kaiming,
        metavar="INIT",
        help=f"initial values: {', '.join(INITIALIZERS)} (default: Kaiming); "
        "parameters: Normal[0.0,0.02]",
    )
    add(
        "--entry",
        default="",
        help="step, gradients or forward (default: the last there is); or, over resident data, "
        "steps or evaluate",
    )


def loss(text: str) -> Any:
    """A loss type, or None."""
    if text.lower() == "none":
        return None
    kind, options = named(text, LOSSES)
    return kind.of(**options) if options else kind


def optimizer(text: str) -> Any:
    """An optimizer, or None. Raises UsageError that lists the options there are."""
    if text.lower() == "none":
        return None
    kind, options = named(text, OPTIMIZERS)
    known = [field.name for field in fields(kind)]
    for key in options:
        if key not in known:
            raise UsageError(f"there is no option {key!r}; there are {', '.join(known)}")
    return kind(**options)


def initial(text: str) -> Any:
    """An initialiser: `Kaiming`, `Normal[0.0, 0.02]`."""
    name, bracket, inside = text.partition("[")
    kind: Any = INITIALIZERS[in_any_case(name, INITIALIZERS)]
    if not bracket:
        return initializer(kind)
    return kind[tuple(float(part) for part in inside.rstrip("]").split(","))]


def stages_from(args: argparse.Namespace) -> Stages:
    """The stages of the network that was named, under its options. Raises NoeiraError."""
    return stages_of(
        load_network(args.model),
        batch=args.batch,
        loss=args.loss,
        optimizer=args.optimizer,
        input=args.input,
        init=args.init,
        dtype=args.dtype,
        target=vars(args).get("target") or "cpu",
        isa=args.isa,
        arch=vars(args).get("arch"),
        entry=args.entry,
        choices=vars(args).get("choices", NO_CHOICES),
    )


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
        raise NoeiraError(f"{place} {what}{instead(module)}")
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


def instead(module: ModuleType) -> str:
    """What networks a module has."""
    known = networks(module)
    return f"; it has {', '.join(known)}" if known else "; it has no networks"


def networks(module: ModuleType) -> list[str]:
    """The names of a module's own networks, in the order of their definition."""
    own = list[str]()
    for name, value in vars(module).items():
        if not isinstance(value, type) or not issubclass(value, Module) or value.role != "layer":
            continue
        complete = value.values is not None or not any(s.required for s in value.slots.values())
        if complete and (value.values is not None or value.__module__ == module.__name__):
            own.append(name)
    return own


def load_module(place: str) -> ModuleType:
    """A module by file or dotted name. Raises NoeiraError if it is not there or cannot be run."""
    path = Path(place)
    by_file = path.suffix == ".py" or "/" in place or "\\" in place
    if by_file and not path.is_file():
        raise NoeiraError(f"there is no file {place}{near(path)}")
    # As Python itself does for scripts: modules beside the file can be imported.
    sys.path.insert(0, str(path.parent.absolute()) if by_file else str(Path.cwd()))
    try:
        return from_file(path) if by_file else importlib.import_module(place)
    except ModuleNotFoundError as error:
        if not by_file and error.name and f"{place}.".startswith(f"{error.name}."):
            raise NoeiraError(
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
    """The file of Python with the most similar name in the folder where one was looked for."""
    folder = path.parent
    names = [p.name for p in folder.glob("*.py")] if folder.is_dir() else []
    found = get_close_matches(path.name, names, n=1) or (names if len(names) == 1 else [])
    return f"; did you mean {folder / found[0]}?" if found else ""
