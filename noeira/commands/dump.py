"""`noeira dump`: a stage of a compile as text, JSON or a picture, or all of them as files."""

from __future__ import annotations

import argparse
import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from noeira.codegen.c import CTarget
from noeira.commands.network import add_model, stages_from
from noeira.commands.usage import UsageError
from noeira.dump import write
from noeira.errors import NoeiraError
from noeira.ir.text import Dump
from noeira.report.drawing import dot, mermaid
from noeira.report.stages import Stages
from noeira.report.structure import dump_value, plan_value
from noeira.runtime.targets import first_of_each_language
from noeira.runtime.toolchain import c_toolchain

if TYPE_CHECKING:
    from noeira.runtime.build.library import Library

STAGES = ("trace", "train", "fused", "plan", "source", "c", "cu")
# The stage `source` by the name of its language, and the target that this is for.
LANGUAGES = {language.ending: target.name for language, target in first_of_each_language().items()}
FORMATS = ("text", "json", "dot", "mermaid")
# The passes that end the training part, the last one there is counts.
TRAINING = ("vjp", "update", "keep_gradients")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The network, the stage, and its form."""
    add_model(parser)
    stage = parser.add_mutually_exclusive_group()
    stage.add_argument(
        "--stage",
        choices=STAGES,
        default="fused",
        help="trace: the network; train: with gradients and optimizer; fused: after the last pass; "
        "plan: with memory; source: C or CUDA, also called c or cu (default: fused)",
    )
    stage.add_argument("--after", metavar="PASS", help="the graph after that pass")
    stage.add_argument(
        "--all",
        metavar="DIR",
        type=Path,
        help="write every stage into a folder, numbered, the source and what is built of it too",
    )
    parser.add_argument("--format", choices=FORMATS, default="text", help="(default: text)")


def run(args: argparse.Namespace) -> int:
    """Print a stage, or write all."""
    stages = stages_from(args)
    if args.all is not None:
        if args.format != "text":
            raise UsageError("--all writes texts; --format goes with --stage or --after")
        if args.all.exists() and not args.all.is_dir():
            raise UsageError(f"{args.all} is a file; --all takes a folder")
        return write_all(stages, args.all)
    if args.after is None and args.stage in ("plan", "source", *LANGUAGES):
        check_language(args.stage, args.target)
        print(late_stage(stages, args.stage, args.format), end="")
        return 0
    dump = after(stages, args.after) if args.after else graph_stage(stages, args.stage)
    print(formatted(dump, args.format), end="")
    return 0


def check_language(stage: str, target: str) -> None:
    """Raises UsageError for a source in the language of another target."""
    if LANGUAGES.get(stage, target) != target:
        raise UsageError(
            f"--stage {stage} goes with --target {LANGUAGES[stage]}; --stage source is what "
            f"{target} has"
        )


def graph_stage(stages: Stages, stage: str) -> Dump:
    """One of the stages that are graphs."""
    if stage == "trace":
        return stages.traced
    if stage == "fused":
        return stages.fused
    training = [dump for name, dump in stages.dumps if name in TRAINING]
    if not training:
        raise UsageError("without a loss there is no training; --stage trace has the network")
    return training[-1]


def after(stages: Stages, name: str) -> Dump:
    """The graph after a pass."""
    found = dict(stages.dumps)
    if name not in found:
        raise UsageError(f"there is no pass {name!r} here; there are {', '.join(found)}")
    return found[name]


def formatted(dump: Dump, form: str) -> str:
    """A graph in the wanted form."""
    if form == "json":
        return json.dumps(dump_value(dump), indent=1) + "\n"
    if form == "text":
        return str(dump)
    return dot(dump.graph) if form == "dot" else mermaid(dump.graph)


def late_stage(stages: Stages, stage: str, form: str) -> str:
    """The plan or the source."""
    if stage != "plan":
        if form != "text":
            raise UsageError(f"the stage {stage} is text; --format {form} is for graphs")
        return stages.source.text
    if form == "json":
        return json.dumps(plan_value(stages.plan), indent=1) + "\n"
    return str(stages.plan) if form == "text" else formatted(stages.fused, form)


def write_all(stages: Stages, folder: Path) -> int:
    """Write `00_trace.nir`, …, `06_plan.plan`, the source and what is built of it; list them."""
    texts = {f"{i:02}_{name}.nir": str(dump) for i, (name, dump) in enumerate(stages.dumps)}
    texts[f"{len(texts):02}_plan.plan"] = str(stages.plan)
    language = stages.source.language
    texts[f"unit.{language.ending}"] = stages.source.text
    try:
        for name, text in texts.items():
            write(folder / name, text)
            print(folder / name)
        write_built(folder, f"unit.{language.binary}", built(stages))
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
    if isinstance(stages.target, CTarget):
        toolchain = c_toolchain()
        if toolchain is None or toolchain.target.isa != stages.target.isa:
            return "there is no compiler here for this source"
        return toolchain.build(stages.source)
    from noeira.codegen.cuda import CudaTarget
    from noeira.report.resources import built_for_gpu, has_machine_code
    from noeira.runtime.cuda.compiler import find_cuda_compiler

    assert isinstance(stages.target, CudaTarget)
    if find_cuda_compiler() is None:
        return "there is no CUDA compiler here; pip install nvidia-cuda-nvrtc gets one"
    library = built_for_gpu(stages.source, stages.target)
    if not has_machine_code(library):
        return f"the CUDA compiler here makes no machine code for {stages.target.arch.name}"
    return library
