"""`noeira check`: runs kernels of CUDA on the CPU in check mode, and says what they do wrong."""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from noeira.codegen.arch import DEFAULT_ARCH
from noeira.codegen.arch import arch as arch_named
from noeira.commands.checked_unit import CheckedUnit, file_unit, network_unit
from noeira.commands.files import read_text
from noeira.commands.network import add_arch, add_options, stages_from
from noeira.commands.terminal import paint
from noeira.commands.usage import UsageError, reading
from noeira.commands.values import bind_inputs, bind_states
from noeira.errors import KernelFault, NoeiraError
from noeira.report.check import CheckedKernel, CheckReport, Found, faults_of
from noeira.runtime.interrupts import let_through

if TYPE_CHECKING:
    from noeira.runtime.device.device import Launch

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
    add_options(parser, choices=False, target=False)
    add = parser.add_argument_group("checking").add_argument
    add_arch(add)
    add(
        "--order",
        choices=ORDERS,
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
    check_usage(args)
    found = report_of(args)
    if args.json:
        print(found.json())
        return 0 if found.is_clean else 1
    heads = set(found.fault_heads())
    for line in str(found).splitlines():
        print(paint(line, "red", sys.stdout) if line in heads else line)
    return 0 if found.is_clean else 1


def check_usage(args: argparse.Namespace) -> None:
    """Raises UsageError for what cannot be checked, and for options that do not go with it."""
    suffix = Path(args.model).suffix
    if args.isa is not None:
        raise UsageError("--isa is for C; check is for CUDA, whose GPU is --arch sm_90")
    if args.arch is not None and suffix in (".plan", ".cu"):
        raise UsageError(f"{args.model} is for a GPU already; --arch goes with a .nir or a network")
    if suffix not in FILES and ":" not in args.model:
        kinds = ", ".join(FILES)
        raise UsageError(f"{args.model}: expected a file {kinds}, or a network such as net.py:MLP")


@dataclass
class Watcher:
    """Notes the faults that a device reports, by kernel, with the entry that is running."""

    kernels: dict[str, CheckedKernel] = field(default_factory=dict)
    entry: str = ""

    def report(self, launch: Launch, fault: KernelFault) -> None:
        """Note what a launch did wrong."""
        if launch.kernel in self.kernels:
            for one in faults_of(fault):
                self.kernels[launch.kernel].add(Found(self.entry, launch.call, one))


def report_of(args: argparse.Namespace) -> CheckReport:
    """What the kernels of a network or file do wrong. Raises CompilerError without a C++ compiler,
    or if a kernel does not compile.
    """
    from noeira.runtime.cuda.toolchain import cuda_cpu_toolchain
    from noeira.runtime.cuda_cpu.device import EmulatedDevice

    watcher = Watcher()
    device = EmulatedDevice(args.order, args.seed, check=True, report=watcher.report)
    toolchain = cuda_cpu_toolchain(device, arch_named(args.arch or DEFAULT_ARCH))
    if Path(args.model).suffix in FILES:
        unit = file_unit(args.model, toolchain)
        chosen = chosen_entries(unit, args)
    else:
        entry, args.entry, args.target = args.entry, "", toolchain.name
        unit = network_unit(stages_from(args), entry, toolchain)
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


def chosen_entries(unit: CheckedUnit, args: argparse.Namespace) -> dict[str, int]:
    """The entries of a file, or the one that was named. Raises NoeiraError that lists them."""
    if not args.entry:
        return unit.entries
    if args.entry not in unit.entries:
        known = ", ".join(unit.entries)
        raise NoeiraError(f"{args.model} has no entry {args.entry!r}; it has {known}")
    return {args.entry: unit.entries[args.entry]}


def kernels_of(
    unit: CheckedUnit, entries: dict[str, int], wanted: str | None
) -> dict[str, CheckedKernel]:
    """The kernels of entries by name, those of whose names `wanted` is a part. Raises NoeiraError
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
        raise NoeiraError(f"no kernel is called {wanted}; there are {', '.join(found)}")
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
