"""`noeira dump`: a stage of a compile as text, JSON or a picture, or all of them as files."""

from __future__ import annotations

import argparse
import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from noeira.codegen.language import CUDA
from noeira.commands.support.options import add_model, stages_from
from noeira.commands.support.usage import UsageError, no_such, one_of
from noeira.dump import source_name, stage_files, write
from noeira.errors import CompilerError, NoeiraError
from noeira.ir.text.dump import Dump
from noeira.report.drawing import dot, mermaid
from noeira.report.structure import dump_value, plan_value
from noeira.stages import Stages

if TYPE_CHECKING:
    from noeira.runtime.build.library import Library

FORMATS = ("text", "json", "dot", "mermaid")
# The stages after those that are passes.
PLAN, SOURCE = "plan", "source"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The network, the stage, and its form."""
    add_model(parser, "target", "isa", "arch", "choices")
    stage = parser.add_mutually_exclusive_group()
    stage.add_argument(
        "--stage",
        metavar="STAGE",
        help="trace: the network; the name of a pass, such as vjp, update, fuse, schedule: the "
        "graph after it; plan: with memory; source: C or CUDA (default: the last pass)",
    )
    stage.add_argument(
        "--all",
        metavar="DIR",
        type=Path,
        help="write every stage into a folder, numbered, the source and what is built of it too",
    )
    parser.add_argument(
        "--format", **one_of(FORMATS, "format"), default="text", help="(default: text)"
    )


def run(args: argparse.Namespace) -> int:
    """Print a stage, or write all."""
    stages = stages_from(args)
    if args.all is None:
        print(stage(stages, args.stage, args.format), end="")
        return 0
    if args.format != "text":
        raise UsageError("--all writes texts; --format goes with --stage")
    if args.all.exists() and not args.all.is_dir():
        raise UsageError(f"{args.all} is a file; --all takes a folder")
    return write_all(stages, args.all)


def stage(stages: Stages, name: str | None, form: str) -> str:
    """A stage in the wanted form; without a name the graph after the last pass. Raises UsageError
    if there is none of that name.
    """
    graphs = dict(stages.dumps)
    if name == PLAN:
        return plan_text(stages, form)
    if name == SOURCE:
        if form != "text":
            raise UsageError(f"the stage {SOURCE} is text; --format {form} is for graphs")
        return stages.source.text
    if name is not None and name not in graphs:
        raise UsageError(no_such("stage", name, [*graphs, PLAN, SOURCE]))
    return graph_text(graphs[name] if name else stages.fused, form)


def graph_text(dump: Dump, form: str) -> str:
    """A graph in the wanted form."""
    if form == "json":
        return json.dumps(dump_value(dump), indent=1) + "\n"
    if form == "text":
        return str(dump)
    return dot(dump.graph) if form == "dot" else mermaid(dump.graph)


def plan_text(stages: Stages, form: str) -> str:
    """The plan in the wanted form; as a picture it is its graph."""
    if form == "json":
        return json.dumps(plan_value(stages.plan), indent=1) + "\n"
    return str(stages.plan) if form == "text" else graph_text(stages.fused, form)


def write_all(stages: Stages, folder: Path) -> int:
    """Write `00_trace.nir`, …, `06_plan.plan`, the source and what is built of it; list them."""
    source = source_name(stages.source)
    texts = {**stage_files(stages.dumps, stages.plan), source: stages.source.text}
    try:
        for name, text in texts.items():
            write(folder / name, text)
            print(folder / name)
        binary = Path(source).with_suffix(f".{stages.source.language.binary}").name
        write_built(folder, binary, built(stages))
    except OSError as error:
        raise NoeiraError(f"{folder} cannot be written: {error.strerror or error}") from None
    return 0


def write_built(folder: Path, name: str, found: Library | str) -> None:
    """Copy what was built of a source, or say why there is nothing."""
    if isinstance(found, str):
        print(f"no {name}: {found}")
        return
    shutil.copyfile(found.path, folder / name)
    print(folder / name)


def built(stages: Stages) -> Library | str:
    """The library of a source, or the reason why it cannot be built here. Raises CompilerError if
    its compiler refuses it.
    """
    from noeira.runtime.cuda.builder import has_machine_code
    from noeira.runtime.targets import toolchain_for

    try:
        toolchain = toolchain_for(stages.target)
    except CompilerError as error:
        return str(error)
    library = toolchain.build(stages.source)
    if stages.source.language is CUDA and not has_machine_code(library):
        return f"the CUDA compiler here makes no machine code for {stages.target.machine.name}"
    return library
