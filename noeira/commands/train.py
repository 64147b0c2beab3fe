"""`noeira train`: trains a network as a file says, with checkpoints and logs in a folder."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from noeira.commands.support.config import Config, read_config
from noeira.commands.support.data import data_of
from noeira.errors import OptionError
from noeira.options import CompileOptions, names_of
from noeira.training import Trainer, TrainResult
from noeira.training.folder import BEST, FILES, LAST, Folder

# Columns of a row that the last lines leave out.
UNSAID = ("seconds", "lr", "grad_norm")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The file, and what is otherwise than it says."""
    parser.add_argument("config", metavar="CONFIG.toml", help="what to train, on what, and how")
    parser.add_argument(
        "--resume",
        action="store_true",
        help="go on with what lies in its folder; begin where nothing does",
    )
    parser.add_argument(
        "--set",
        dest="changes",
        metavar="SECTION.KEY=VALUE",
        action="append",
        default=[],
        help="a value in place of the file's, such as trainer.epochs=3; may be given several times",
    )


def run(args: argparse.Namespace) -> int:
    """Train; 1 if Ctrl-C ended it."""
    config = read_config(args.config, args.changes)
    model, given = dict(config.values["model"]), dict(config.values["trainer"])
    for section, key, why in (
        ("model", "type", 'the network to train, type = "net.py:MLP"'),
        ("trainer", "folder", 'where checkpoints and logs are to lie, folder = "runs/1"'),
    ):
        if key not in config.values[section]:
            raise config.wrong(section, f"{key} is missing: {why}")
    folder = Folder(Path(given["folder"]))
    if not args.resume:
        folder.check_empty("--resume")
    known = names_of(CompileOptions)
    options = model | {name: given.pop(name) for name in [*given] if name in known}
    try:
        trainer = Trainer(options.pop("type"), **options)
        train, test = data_of(config)
        result = trainer.fit(train, test, resume=args.resume, **given)
    except OptionError as error:
        raise config.wrong("trainer", error) from error
    for line in told(config, args.changes, folder.path, result):
        print(line)
    return 1 if result.interrupted else 0


def told(config: Config, changes: Sequence[str], folder: Path, result: TrainResult) -> list[str]:
    """What is said at the end: how well it went, where things lie, how to go on."""
    there = [name for name in FILES if (folder / name).exists()]
    lines = [str(result)] if result.epochs else []
    if there:
        lines.append(f"{folder}: {', '.join(there)}")
    if BEST in there and result.best is not None:
        row = result.best.row
        shown = [f"{name} {number(row[name])}" for name in row if name not in UNSAID]
        lines.append(f"{BEST}: {', '.join(shown)}")
    if result.interrupted and LAST in there:
        again = [config.path, "--resume", *(word for text in changes for word in ("--set", text))]
        lines.append(f"go on: noeira train {shlex.join(again)}")
    return lines


def number(value: Any) -> str:
    """A number as it is printed."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)
