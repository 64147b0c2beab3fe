"""`noeira profile`: the measured time of every launch of a step, beside the least it could take."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from noeira.codegen.c import CTarget
from noeira.codegen.choices import chosen_table
from noeira.codegen.render_c import render_c
from noeira.codegen.sharing import shared_kernels
from noeira.commands.files import read_dump, read_plan
from noeira.commands.network import add_options, stages_from
from noeira.commands.run import ALSO_RUNS, plan_target
from noeira.commands.usage import UsageError, positive, reading
from noeira.commands.values import bind_inputs, bind_states
from noeira.compiler import lower
from noeira.errors import NoeiraError
from noeira.ir.plan import Plan
from noeira.report.explain import explained, symbols
from noeira.report.profile import SORTS, profile_of
from noeira.report.stages import c_target
from noeira.runtime.build.cache import open_cache
from noeira.runtime.build.library import load
from noeira.runtime.c.compiler import require_compiler
from noeira.runtime.c.timed_entry import TimedEntry
from noeira.runtime.entry_point import thread_count
from noeira.runtime.limits import measure_limits
from noeira.runtime.toolchain import CToolchain

SEED = 0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The network or file, how it is measured, and the form of the answer."""
    parser.add_argument(
        "model",
        metavar="MODEL",
        help="path.py:Name or package.module:Name, or a dumped x.nir or x.plan",
    )
    add_options(parser, target=False)
    add = parser.add_argument_group("measuring").add_argument
    add(
        "--threads",
        type=reading(positive, "a whole number of at least 1"),
        metavar="N",
        help="threads of the step (default: NOEIRA_THREADS, else the processors)",
    )
    add(
        "--seconds",
        type=reading(duration, "a number of seconds above 0"),
        default=1.0,
        metavar="S",
        help="how long steps are measured (default: 1)",
    )
    add(
        "--sort",
        choices=SORTS,
        default=SORTS[0],
        help="order of the table (default: launch)",
    )
    add("--json", action="store_true", help="print one JSON object, times in seconds")
    add("--png", metavar="FILE", help="draw the launches under the machine's roofs")


def duration(text: str) -> float:
    """A number above 0."""
    seconds = float(text)
    if not 0 < seconds < float("inf"):
        raise ValueError(text)
    return seconds


def run(args: argparse.Namespace) -> int:
    """Measure and print the table."""
    if args.png is not None:
        from noeira.report.roofline import require_matplotlib

        # Before anything is measured.
        require_matplotlib()
    cache = open_cache()
    compiler = require_compiler(cache)
    toolchain = CToolchain(compiler, cache)
    plan, target = planned(args, toolchain)
    threads = (args.threads or thread_count()) if compiler.has_threads else 1
    source = render_c(plan.graph.network, [plan], target, timed=True)
    entry = TimedEntry(plan, load(toolchain.build(source)), threads)
    bind_states(entry, SEED, None)
    bind_inputs(entry, SEED, None)
    limits = measure_limits(threads, target.isa)
    launches = explained(plan, symbols(shared_kernels([plan], target)), (), target).launches
    found = profile_of(plan, launches, entry.measure(args.seconds), limits)
    print(found.json() if args.json else found.text(args.sort))
    if args.png is not None:
        from noeira.report.roofline import draw

        draw(found, args.png)
        print(f"{args.png} is written", file=sys.stderr)
    return 0


def planned(args: argparse.Namespace, toolchain: CToolchain) -> tuple[Plan, CTarget]:
    """The plan of a network or file, and the target it is for.

    Raises NoeiraError if this machine cannot run that.
    """
    path: str = args.model
    suffix = Path(path).suffix
    if suffix == ".plan":
        if args.choices is not None:
            made = f"{path} has its choices made"
            raise UsageError(f"{made}; --choices goes with a .nir or a network")
        plan = read_plan(path)
        made_for = plan_target(plan, path, toolchain)
        assert isinstance(made_for, CTarget)
        return plan, made_for
    target = c_target(args.isa, chosen_table(args.choices))
    own = toolchain.target.isa.name
    if target.isa.name != own and target.isa.name not in ALSO_RUNS.get(own, ()):
        raise NoeiraError(f"this machine is {toolchain.target.name}; it cannot run {target.name}")
    if suffix == ".nir":
        return lower(read_dump(path), target), target
    if ":" not in path:
        raise UsageError(f"{path}: expected a file .nir or .plan, or a network such as net.py:MLP")
    return stages_from(args).plan, target
