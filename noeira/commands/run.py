"""`noeira run`: goes on from any dumped stage, or from a network, and runs it once."""

from __future__ import annotations

import argparse
import ctypes
import struct
from dataclasses import replace
from pathlib import Path

from noeira.codegen.cuda.arch import arch
from noeira.codegen.embedded import SYMBOL
from noeira.codegen.language import language_of
from noeira.codegen.sharing import renumbered
from noeira.codegen.target import Target
from noeira.commands.support.files import plans_in_text, read_plan, unit_source, unreadable
from noeira.commands.support.loading import Subject, c_toolchain_for, plan_target, subject
from noeira.commands.support.network import add_imports, run_imports
from noeira.commands.support.options import (
    CODE,
    add_options,
    check_code,
    check_entry,
    given,
)
from noeira.commands.support.usage import UsageError, one_of, reading
from noeira.commands.support.values import (
    bind_inputs,
    bind_states,
    output_lines,
    results,
)
from noeira.errors import NoeiraError
from noeira.ir.plan import VERSION as PLAN_VERSION
from noeira.ir.plan import Plan
from noeira.runtime.c.compiled_entry import CompiledEntry
from noeira.runtime.device.launched_entry import LaunchedEntry
from noeira.runtime.entry_point import EntryPoint
from noeira.runtime.interrupts import let_through
from noeira.runtime.reference import ReferenceToolchain
from noeira.runtime.safetensors import write
from noeira.runtime.targets import TARGETS, running
from noeira.runtime.toolchain import Toolchain

# The targets that run what was built, the usual one first.
BUILT = {ending: running(ending) for one in TARGETS.values() for ending in one.runs}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The file or network, and its values."""
    parser.add_argument(
        "model",
        metavar="FILE",
        help="x.nir, x.plan, x.c, x.so, x.cu or x.cubin as dumped, or a network path.py:Name",
    )
    parser.add_argument(
        "--seed",
        type=reading(int, "a whole number"),
        default=0,
        help="weights and inputs are drawn from it (default: 0)",
    )
    parser.add_argument(
        "--weights",
        metavar="W.safetensors",
        help="parameters and states by name, as --save and program.save write them",
    )
    parser.add_argument("--inputs", metavar="I.npz", help="inputs by name: x, target")
    parser.add_argument(
        "--save",
        metavar="OUT.safetensors",
        help="write parameters and states to a file, by name, and outputs, as %%NAME",
    )
    add_imports(parser)
    parser.add_argument(
        "--target",
        default=argparse.SUPPRESS,
        **one_of(TARGETS, "target"),
        help="where it runs; reference: the graph by NumPy (default: cpu; for a .cu cuda-cpu, for "
        "a .cubin cuda)",
    )
    add_options(parser, "isa", "arch", "choices")


def run(args: argparse.Namespace) -> int:
    """Run once and print the outputs."""
    run_imports(args)
    entry = loaded(args)
    bind_states(entry, args.seed, args.weights)
    bind_inputs(entry, args.seed, args.inputs)
    with let_through():
        entry.run()
    for line in output_lines(entry):
        print(line)
    if args.save is not None:
        write(args.save, results(entry), entry.graph.network)
    return 0


def loaded(args: argparse.Namespace) -> EntryPoint:
    """The entry that a file or network gives."""
    what = subject(args)
    target = args.target if "target" in args else None
    if what.ending in BUILT and target not in (None, *BUILT[what.ending]):
        here = " or ".join(BUILT[what.ending])
        raise UsageError(
            f"{what.path} goes with --target {here}; others run graphs: a .nir, a .plan, a network"
        )
    if what.ending == ".plan":
        return from_plan(read_plan(what.path), what.path, target)
    entry = args.entry if "entry" in args else ""
    if what.ending in (".c", ".cu"):
        return from_source(what.path, entry, target or BUILT[what.ending][0])
    if what.ending == ".so":
        return from_library(what.path, entry)
    if what.ending == ".cubin":
        return from_cubin(what.path, entry)
    return from_graph(what, target or "cpu")


def from_graph(what: Subject, target: str) -> EntryPoint:
    """A graph, after the passes that are still to do, for the machine that was asked for."""
    toolchain = toolchain_of(what.args, target)
    if isinstance(toolchain, ReferenceToolchain):
        return toolchain.entry(what.finished().graph)
    return compiled(what.plan(toolchain.target), toolchain.target, toolchain)


def toolchain_of(args: argparse.Namespace, target: str) -> Toolchain | ReferenceToolchain:
    """What builds for a target, a kind of vector unit or GPU, and a table of choices. Raises
    UsageError for options that have no effect there.
    """
    kinds = vars(args)
    if TARGETS[target].language is None and (useless := given(args, CODE[1:])):
        raise UsageError(f"{useless[0]} is for code, and the {target} has none")
    check_code(args, target)
    if target == "cuda" and "arch" in kinds:
        raise UsageError("--arch goes with --target cuda-cpu: on a GPU, code is for that GPU")
    if kinds.get("isa"):
        return c_toolchain_for(kinds["isa"], kinds.get("choices"))
    toolchain = TARGETS[target].open(TARGETS[target].table(kinds.get("choices")))
    if "arch" in kinds:
        from noeira.runtime.cuda.toolchain import CudaToolchain

        assert isinstance(toolchain, CudaToolchain)
        return replace(toolchain, arch=arch(kinds["arch"]))
    return toolchain


def from_plan(plan: Plan, path: str, target: str | None) -> EntryPoint:
    """A plan as it stands, by default on the CPU, whatever language it is for."""
    own, *_ = running(f".{language_of(plan.target).ending}")
    toolchain = TARGETS[target or own].open()
    if isinstance(toolchain, ReferenceToolchain):
        return toolchain.entry(plan.graph)
    return compiled(plan, plan_target(plan, path, toolchain.target), toolchain)


def compiled(plan: Plan, target: Target, toolchain: Toolchain) -> EntryPoint:
    """A plan, rendered and built."""
    source = target.render(plan.graph.network, [plan])
    return toolchain.entry(plan, toolchain.build(source))


def from_source(path: str, entry: str, target: str) -> EntryPoint:
    """A unit of C or CUDA as it stands."""
    from noeira.runtime.c.compiler import require_compiler

    source = unit_source(path)
    plans = [*source.parsed]
    plan = chosen(plans, entry)
    toolchain = TARGETS[target].open()
    if isinstance(toolchain, ReferenceToolchain):
        # There is no compiler: this says how to get one.
        require_compiler()
        raise NoeiraError(f"{path} needs a C compiler")
    made = plan_target(plan, path, toolchain.target).render(source.name, plans)
    if renumbered(source.text) != renumbered(made.text):
        print(f"running {path} as it stands (edited)")
        toolchain = toolchain.lenient()
    return toolchain.entry(plan, toolchain.build(source), plans.index(plan))


def from_library(path: str, entry: str) -> EntryPoint:
    """A built unit."""
    check_whole(path)
    try:
        library = ctypes.CDLL(str(Path(path).absolute()))
        start = ctypes.addressof(ctypes.c_char.in_dll(library, SYMBOL))
    except OSError as error:
        raise NoeiraError(f"{path} cannot be loaded: {error}") from None
    except ValueError:
        raise NoeiraError(f"{path} has no {SYMBOL}: it is no unit that noeira built") from None
    text = ctypes.string_at(start).decode()
    return CompiledEntry(chosen(plans_in_text(path, text), entry), library)


def from_cubin(path: str, entry: str) -> EntryPoint:
    """Machine code for a GPU."""
    from noeira.runtime.cuda.toolchain import cuda_toolchain

    check_whole(path)
    data = Path(path).read_bytes()
    start = data.find(PLAN_VERSION.encode())
    if start < 0:
        raise NoeiraError(f"{path} has no plans: it is no unit that noeira built")
    end = data.find(b"\0", start)
    if end < 0:
        raise damaged(path)
    plans = plans_in_text(path, data[start:end].decode())
    plan = chosen(plans, entry)
    toolchain = cuda_toolchain()
    made = plan_target(plan, path, toolchain.target).render(plan.graph.network, plans)
    with toolchain.device.session():
        module = toolchain.device.load(Path(path).absolute(), plan.target.split()[-1])
    return LaunchedEntry(plan, toolchain.device, module, made.symbols[plans.index(plan)])


def check_whole(path: str) -> None:
    """Raises NoeiraError if the file is missing or an incomplete ELF one: that can crash."""
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise unreadable(path, error) from None
    if data[:5] != b"\x7fELF\x02":
        return
    # ELF-64: the table of sections (its place at 40, the size of a row at 58, their number at 60)
    # comes last.
    if len(data) >= 64:
        (table,) = struct.unpack_from("<Q", data, 40)
        size, count = struct.unpack_from("<HH", data, 58)
        if table + size * count <= len(data):
            return
    raise damaged(path)


def damaged(path: str) -> NoeiraError:
    """The error for a file that was cut off."""
    return NoeiraError(f"{path} is damaged: its end is missing")


def chosen(plans: list[Plan], entry: str) -> Plan:
    """One of a unit's plans; by default the last. Raises UsageError that lists them."""
    found = {plan.graph.entry: plan for plan in plans}
    if not entry:
        return plans[-1]
    check_entry(entry, found)
    return found[entry]
