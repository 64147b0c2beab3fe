"""`noeira profile`: the measured time of every launch of a step, beside the least it could take."""

from __future__ import annotations

import argparse
import sys

from noeira.codegen.c.render import render_c
from noeira.codegen.c.target import CTarget
from noeira.codegen.sharing import shared_kernels
from noeira.commands.support.files import read_plan
from noeira.commands.support.loading import c_toolchain_for, plan_target, subject
from noeira.commands.support.options import add_options
from noeira.commands.support.terminal import width_of
from noeira.commands.support.usage import SECONDS, WHOLE, duration, one_of, positive, reading
from noeira.commands.support.values import bind_inputs, bind_states
from noeira.ir.plan import Plan
from noeira.machine.limits import measure_limits
from noeira.report.explain import explained, symbols
from noeira.report.profile import SORTS, profile_of
from noeira.runtime.build.library import load
from noeira.runtime.c.timed_entry import TimedEntry
from noeira.runtime.c.toolchain import CToolchain
from noeira.runtime.threads import thread_count

SEED = 0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The network or file, how it is measured, and the form of the answer."""
    parser.add_argument(
        "model",
        metavar="MODEL",
        help="path.py:Name or package.module:Name, or a dumped x.nir or x.plan",
    )
    add_options(parser, "isa", "choices")
    add = parser.add_argument_group("measuring").add_argument
    add(
        "--threads",
        type=reading(positive, WHOLE),
        metavar="N",
        help="threads of the step (default: NOEIRA_THREADS, else the processors)",
    )
    add(
        "--seconds",
        type=reading(duration, SECONDS),
        default=1.0,
        metavar="S",
        help="how long steps are measured (default: 1)",
    )
    add(
        "--sort",
        **one_of(SORTS, "order"),
        default=SORTS[0],
        help="order of the table (default: launch)",
    )
    add("--json", action="store_true", help="print one JSON object, times in seconds")
    add("--png", metavar="FILE", help="draw the launches under the machine's roofs")


def run(args: argparse.Namespace) -> int:
    """Measure and print the table."""
    if args.png is not None:
        from noeira.report.roofline import check_drawable

        # Before anything is measured.
        check_drawable(args.png)
    plan, target, toolchain = planned(args)
    threads = (args.threads or thread_count()) if toolchain.compiler.has_threads else 1
    source = render_c(plan.graph.network, [plan], target, timed=True)
    entry = TimedEntry(plan, load(toolchain.build(source)), threads)
    bind_states(entry, SEED, None)
    bind_inputs(entry, SEED, None)
    limits = measure_limits(threads, target.machine)
    launches = explained(plan, symbols(shared_kernels([plan], target)), (), target).launches
    found = profile_of(plan, launches, entry.measure(args.seconds), limits)
    print(found.json() if args.json else found.text(args.sort, width_of(sys.stdout)))
    if args.png is not None:
        from noeira.report.roofline import draw

        draw(found, args.png)
        print(f"{args.png} is written", file=sys.stderr)
    return 0


def planned(args: argparse.Namespace) -> tuple[Plan, CTarget, CToolchain]:
    """The plan of a network or file, the target it is for, and what builds it.

    Raises NoeiraError if this machine cannot run that.
    """
    what = subject(args, (".nir", ".plan"))
    toolchain = c_toolchain_for(vars(args).get("isa"), vars(args).get("choices"))
    if what.ending != ".plan":
        return what.plan(toolchain.target), toolchain.target, toolchain
    plan = read_plan(what.path)
    return plan, plan_target(plan, what.path, toolchain.target), toolchain
