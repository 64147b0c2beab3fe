"""`noeira check`: runs kernels of CUDA on the CPU in check mode, and says what they do wrong."""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from noeira.codegen.cuda.arch import arch
from noeira.commands.support.checked_unit import CheckedUnit, file_unit, network_unit
from noeira.commands.support.files import read_text
from noeira.commands.support.loading import subject
from noeira.commands.support.options import add_options, check_entry, stages_from
from noeira.commands.support.terminal import paint
from noeira.commands.support.usage import UsageError, no_such, one_of, reading
from noeira.commands.support.values import bind_inputs, bind_states
from noeira.errors import KernelFault
from noeira.report.check import CheckedKernel, CheckReport, Found, faults_of
from noeira.runtime.interrupts import let_through

if TYPE_CHECKING:
    from noeira.runtime.device.device import BoundLaunch

ORDERS = ("forward", "reverse", "random")
FILES = (".nir", ".plan", ".cu")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What is checked, the order of its threads, and the form of the answer."""
    parser.add_argument(
        "model",
        metavar="MODEL",
        help="path.py:Name or package.module:Name, or a file x.nir, x.plan or x.cu as dumped, "
        "edited or not",
    )
    add_options(parser, "isa", "arch")
    add = parser.add_argument_group("checking").add_argument
    add(
        "--order",
        **one_of(ORDERS, "order"),
        default=ORDERS[0],
        help="in which blocks and threads take turns (default: forward)",
    )
    add(
        "--seed",
        type=reading(int, "a whole number"),
        default=0,
        help="weights, inputs and the random order are drawn from it (default: 0)",
    )
    add("--kernel", metavar="NAME", help="report on this kernel; a part of its name will do")
    add("--json", action="store_true", help="print one JSON object")


def run(args: argparse.Namespace) -> int:
    """Check and report; 1 if anything was found."""
    if "isa" in args:
        raise UsageError("--isa is for C; check is for CUDA, whose GPU is --arch sm_90")
    found = report_of(args)
    if args.json:
        print(found.json())
        return 0 if found.is_clean else 1
    heads = set(found.fault_heads())
    for line in str(found).splitlines():
        print(paint(line, "red", sys.stdout) if line in heads else line)
    return 0 if found.is_clean else 1


@dataclass
class Watcher:
    """Notes the faults that a device reports, by kernel, with the entry that is running."""

    kernels: dict[str, CheckedKernel] = field(default_factory=dict)
    entry: str = ""

    def report(self, launch: BoundLaunch, fault: KernelFault) -> None:
        """Note what a launch did wrong."""
        if launch.kernel in self.kernels:
            for one in faults_of(fault):
                self.kernels[launch.kernel].add(Found(self.entry, launch.call, one))


def report_of(args: argparse.Namespace) -> CheckReport:
    """What the kernels of a network or file do wrong. Raises CompilerError without a C++ compiler,
    or if a kernel does not compile.
    """
    from noeira.runtime.cuda_cpu.device import CudaCpuDevice
    from noeira.runtime.cuda_cpu.toolchain import cuda_cpu_toolchain

    watcher = Watcher()
    device = CudaCpuDevice(args.order, args.seed, check=True, report=watcher.report)
    what = subject(args, FILES)
    toolchain = cuda_cpu_toolchain(device, arch(args.arch) if "arch" in args else None)
    entry = args.entry if "entry" in args else ""
    if what.ending:
        unit = file_unit(what, toolchain)
        chosen = chosen_entries(unit, entry)
    else:
        # Without an entry named, those over a data set are checked too.
        unit = network_unit(stages_from(args, entry="", target=toolchain.name), entry, toolchain)
        chosen = unit.entries
    watcher.kernels = kernels_of(unit, chosen, args.kernel)
    entries = [name for name in chosen if launch_all(unit, name, args.seed, watcher)]
    return CheckReport(
        unit.plans[0].graph.network,
        unit.plans[0].target,
        unit.path,
        read_text(str(unit.path)),
        tuple(entries),
        args.order,
        args.seed,
        tuple(watcher.kernels.values()),
    )


def chosen_entries(unit: CheckedUnit, entry: str) -> dict[str, int]:
    """The entries of a file, or the one that was named. Raises UsageError that lists them."""
    if not entry:
        return unit.entries
    check_entry(entry, unit.entries)
    return {entry: unit.entries[entry]}


def kernels_of(
    unit: CheckedUnit, entries: dict[str, int], wanted: str | None
) -> dict[str, CheckedKernel]:
    """The kernels of entries by name, those of whose names `wanted` is a part. Raises UsageError
    if there is none.
    """
    found = {
        name: CheckedKernel(name, stage)
        for index in entries.values()
        for name, stage in unit.launches(index)
    }
    if wanted is None:
        return found
    chosen = {name: kernel for name, kernel in found.items() if wanted in name}
    if not chosen:
        raise UsageError(no_such("kernel", wanted, found))
    return chosen


def launch_all(unit: CheckedUnit, name: str, seed: int, watcher: Watcher) -> bool:
    """Run an entry on drawn values, unless it has none of the kernels that are watched."""
    index = unit.entries[name]
    own = [kernel for kernel, _ in unit.launches(index) if kernel in watcher.kernels]
    if not own:
        return False
    watcher.entry = name
    entry = unit.entry(index)
    bind_states(entry, seed, None)
    bind_inputs(entry, seed, None)
    with let_through():
        entry.run()
    for kernel in own:
        watcher.kernels[kernel].launches += 1
    return True
