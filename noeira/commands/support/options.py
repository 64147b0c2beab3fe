"""The options that commands on networks share, and the stages of a network under them.

An option that was not given is not among the arguments, so that one which could have no effect can
be refused, and defaults stand in one place: where stages are made.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from typing import Any

from noeira.codegen.c.isa import ISAS
from noeira.codegen.cuda.arch import ARCHS, DEFAULT_ARCH
from noeira.commands.support.network import load_network
from noeira.commands.support.usage import (
    WHOLE,
    UsageError,
    known_name,
    no_such,
    one_of,
    positive,
    reading,
    sample_shapes,
)
from noeira.commands.support.written import (
    CLIPPINGS,
    INITIALIZERS,
    LOSSES,
    OPTIMIZERS,
    SCHEDULES,
    clip,
    group,
    initial,
    loss,
    optimizer,
    schedule,
)
from noeira.runtime.targets import TARGETS, first_of_each_language
from noeira.stages import Stages, stages_of

Add = Callable[..., object]

# What decides a network's graphs, and what they are written for.
UPDATE = ("schedule", "clip", "groups", "accumulate", "ema")
STEP = ("batch", "input", "loss", "optimizer", *UPDATE, "fold", "dtype", "init", "entry")
CODE = ("target", "isa", "arch", "choices")
WRITTEN_FOR = tuple(target.name for target in first_of_each_language().values())


def add_model(parser: argparse.ArgumentParser, *code: str) -> None:
    """A network, the options that decide its step, and those of CODE that are named."""
    parser.add_argument("model", metavar="MODEL", help="path.py:Name or package.module:Name")
    add_options(parser, *code)


def add_options(parser: argparse.ArgumentParser, *code: str) -> None:
    """The options that decide a network's step, and those of CODE that are named."""
    group = parser.add_argument_group("the training step")

    def add(name: str, **options: Any) -> None:
        group.add_argument(name, default=argparse.SUPPRESS, **options)

    add_step(add)
    kinds = {"target": add_target, "isa": add_isa, "arch": add_arch, "choices": add_choices}
    for name in code:
        kinds[name](add)


def add_step(add: Add) -> None:
    """What the network is given, and what a step of it is."""
    add(
        "--batch",
        type=reading(positive, WHOLE),
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
        metavar="LOSS",
        help=f"{', '.join(LOSSES)}, none, or file.py:Name (default: CrossEntropy); "
        "options: CrossEntropy:smoothing=0.1",
    )
    add(
        "--optimizer",
        type=reading(optimizer, "an optimizer"),
        metavar="OPT",
        help=f"{', '.join(OPTIMIZERS)}, none, or file.py:Name (default: Adam); "
        "options: adam:lr=0.001,beta1=0.9",
    )
    add_update(add)
    add(
        "--fold",
        action="store_true",
        help="in forward, fold normalisations by running statistics into the weights before them",
    )
    add("--dtype", **one_of(("f32", "f64"), "dtype"), help="of parameters (default: f32)")
    add(
        "--init",
        type=reading(initial, "an initialiser"),
        metavar="INIT",
        help=f"initial values: {', '.join(INITIALIZERS)} (default: Kaiming); "
        "parameters: Normal[0.0,0.02]",
    )
    add(
        "--entry",
        metavar="NAME",
        help="step, gradients or forward (default: the first there is); or, over resident data, "
        "steps, order or evaluate",
    )


def add_update(add: Add) -> None:
    """What surrounds the optimizer."""
    add(
        "--schedule",
        type=reading(schedule, "a schedule"),
        metavar="SCHEDULE",
        help=f"of the learning rate: {', '.join(SCHEDULES)}; options: cosine:steps=1000",
    )
    add(
        "--clip",
        type=reading(clip, "a clipping"),
        metavar="CLIP",
        help=f"of gradients: {', '.join(CLIPPINGS)}; options: clipnorm:max_norm=1.0",
    )
    add(
        "--groups",
        type=reading(group, "a group of parameters"),
        action="append",
        metavar="PATTERN:OPTIONS",
        help="what parameters of such names have of their own: '*.bias:lr_factor=0.1', "
        "'0.*:frozen=true'; several times for several groups",
    )
    add(
        "--accumulate",
        type=reading(positive, WHOLE),
        metavar="N",
        help="parts that a batch is taken in, whose gradients are added up (default: 1)",
    )
    add(
        "--ema",
        type=reading(float, "a number"),
        metavar="DECAY",
        help="decay of a moving average of the parameters, such as 0.999",
    )


def add_target(add: Add) -> None:
    """What code is written for."""
    help = "what the kernels are written for (default: cpu)"
    add("--target", **one_of(WRITTEN_FOR, "target") | {"type": target_written_for}, help=help)


def target_written_for(name: str) -> str:
    """The target whose code is meant. Raises argparse.ArgumentTypeError that says of a target
    without a text of its own which one's it runs.
    """
    target = TARGETS.get(name.lower())
    if target is not None and target.name not in WRITTEN_FOR:
        what = "runs no kernels"
        if target.language is not None:
            first = first_of_each_language()[target.language].name
            what = f"runs the text of {first}: write --target {first}"
        raise argparse.ArgumentTypeError(f"{target.name} {what}")
    return reading(lambda text: known_name(text, WRITTEN_FOR, "target"), "target")(name)


def add_isa(add: Add) -> None:
    """The kind of vector unit."""
    help = "vector unit that C is for (default: this machine's)"
    add("--isa", **one_of(ISAS, "vector unit"), help=help)


def add_arch(add: Add) -> None:
    """The kind of GPU."""
    help = f"GPU that CUDA is for (default: {DEFAULT_ARCH})"
    add("--arch", **one_of(ARCHS, "kind of GPU"), help=help)


def add_choices(add: Add) -> None:
    """The table of tuned choices."""
    add(
        "--choices",
        metavar="FILE",
        help="table of tuned choices, from noeira tune (default: that of NOEIRA_CHOICES)",
    )


def given(args: argparse.Namespace, names: Iterable[str]) -> list[str]:
    """The options among these that were given, as they are written."""
    return [f"--{name}" for name in names if name in args]


def check_code(args: argparse.Namespace, target: str) -> None:
    """Raises UsageError for options of another target than the one that code is written for."""
    if target == "cpu" and "arch" in args:
        raise UsageError("--arch is for --target cuda; cpu has --isa")
    if target != "cpu":
        for option in given(args, ("isa", "choices")):
            raise UsageError(f"{option} is for --target cpu, not {target}")


def stages_from(args: argparse.Namespace, **fixed: Any) -> Stages:
    """The stages of the network that was named, under its options and some that are fixed.

    Raises UsageError for options that do not go together, NoeiraError for what is wrong with the
    network.
    """
    options = {name: vars(args)[name] for name in (*STEP, *CODE) if name in args} | fixed
    if "groups" in options:
        options["groups"] = dict(options["groups"])
    if options.get("loss", True) is None and options.get("optimizer") is not None:
        raise UsageError("--optimizer goes with a loss, and --loss none is without one")
    check_code(args, options.get("target", "cpu"))
    stages = stages_of(load_network(args.model), **options)
    if stages.entry:
        check_entry(stages.entry, stages.job.makers_with_data)
    return stages


def check_entry(entry: str, known: Iterable[str]) -> None:
    """Raises UsageError if there is no such entry."""
    if entry not in (names := list(known)):
        raise UsageError(no_such("entry", entry, names))
