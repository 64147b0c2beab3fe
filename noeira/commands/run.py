"""`noeira run`: goes on from any dumped stage, or from a network, and runs it once."""

from __future__ import annotations

import argparse
import ctypes
import struct
from pathlib import Path

from noeira.codegen.c import CTarget
from noeira.codegen.language import language_of
from noeira.codegen.sharing import renumbered
from noeira.codegen.target import Target
from noeira.codegen.targets import target_named
from noeira.commands.files import PLANS_SYMBOL, plans_in_text, read_dump, read_plan, unit_source
from noeira.commands.network import DUMPED, add_options, load_module, stages_from
from noeira.commands.usage import UsageError, reading
from noeira.commands.values import bind_inputs, bind_states, output_lines, results, save
from noeira.compiler import lower, render_plans, run_passes
from noeira.errors import NoeiraError
from noeira.ir.plan import VERSION as PLAN_VERSION
from noeira.ir.plan import Plan
from noeira.ir.text import Dump
from noeira.runtime.device.launched_entry import LaunchedEntry
from noeira.runtime.entry_point import CompiledEntry, EntryPoint
from noeira.runtime.interrupts import let_through
from noeira.runtime.reference import ReferenceToolchain
from noeira.runtime.targets import TARGETS, running
from noeira.runtime.toolchain import Toolchain

# The targets that run what was built, the usual one first.
BUILT = {ending: running(ending) for one in TARGETS.values() for ending in one.runs}
# What the vector unit of a machine can run beside its own.
ALSO_RUNS = {"avx512": ("avx2", "plain"), "avx2": ("plain",), "neon": ("plain",)}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The file or network, and its values."""
    parser.add_argument(
        "file",
        metavar="FILE",
        help="x.nir, x.plan, x.c, x.so, x.cu or x.cubin as dumped, or a network path.py:Name",
    )
    parser.add_argument(
        "--seed",
        type=reading(int, "a whole number"),
        default=0,
        help="weights and inputs are drawn from it (default: 0)",
    )
    parser.add_argument("--weights", metavar="W.npz", help="parameters and states by name")
    parser.add_argument("--inputs", metavar="I.npz", help="inputs by name: x, target")
    parser.add_argument(
        "--save", metavar="OUT.npz", help="write outputs and updated parameters to a file"
    )
    parser.add_argument(
        "--import",
        dest="imports",
        metavar="FILE.py",
        action="append",
        default=[],
        help="a Python file to run first: one that defines ops of your own",
    )
    parser.add_argument(
        "--target",
        choices=TARGETS,
        help="cpu, cuda, cuda-cpu, or reference: the graph by NumPy (default: cpu; for a .cu "
        "cuda-cpu, for a .cubin cuda)",
    )
    add_options(parser, target=False)


def run(args: argparse.Namespace) -> int:
    """Run once and print the outputs."""
    for file in args.imports:
        load_module(file)
    entry = loaded(args)
    bind_states(entry, args.seed, args.weights)
    bind_inputs(entry, args.seed, args.inputs)
    with let_through():
        entry.run()
    for line in output_lines(entry):
        print(line)
    if args.save is not None:
        save(args.save, results(entry))
    return 0


def loaded(args: argparse.Namespace) -> EntryPoint:
    """The entry that a file or network gives."""
    path: str = args.file
    suffix = Path(path).suffix
    if suffix in DUMPED[1:] and args.choices is not None:
        raise UsageError(f"{path} has its choices made; --choices goes with a .nir or a network")
    if suffix in BUILT and args.target not in (None, *BUILT[suffix]):
        runs = " or ".join(BUILT[suffix])
        raise UsageError(
            f"{path} goes with --target {runs}; others run graphs: a .nir, a .plan, a network"
        )
    if suffix == ".nir":
        return from_dump(read_dump(path), args.target or "cpu", args.choices)
    if suffix == ".plan":
        return from_plan(read_plan(path), path, args.target)
    if suffix in (".c", ".cu"):
        return from_source(path, args.entry, args.target or BUILT[suffix][0])
    if suffix == ".so":
        return from_library(path, args.entry)
    if suffix == ".cubin":
        return from_cubin(path, args.entry)
    if ":" not in path:
        kinds = ", ".join(DUMPED)
        raise UsageError(f"{path}: expected a file {kinds}, or a network such as net.py:MLP")
    args.model = path
    return from_dump(stages_from(args).traced, args.target or "cpu", args.choices)


def from_dump(dump: Dump, target: str, choices: str | None) -> EntryPoint:
    """A graph, after the passes that are still to do, with the choices of a table."""
    toolchain = TARGETS[target].open(TARGETS[target].table(choices))
    if isinstance(toolchain, ReferenceToolchain):
        return toolchain.entry(run_passes(dump).graph)
    return compiled(lower(dump, toolchain.target), toolchain.target, toolchain)


def from_plan(plan: Plan, path: str, target: str | None) -> EntryPoint:
    """A plan as it stands, by default on the CPU, whatever language it is for."""
    own, *_ = running(f".{language_of(plan.target).ending}")
    toolchain = TARGETS[target or own].open()
    if isinstance(toolchain, ReferenceToolchain):
        return toolchain.entry(plan.graph)
    return compiled(plan, plan_target(plan, path, toolchain), toolchain)


def compiled(plan: Plan, target: Target, toolchain: Toolchain) -> EntryPoint:
    """A plan, rendered and built."""
    source = render_plans(plan.graph.network, [plan], target)
    return toolchain.entry(plan, toolchain.build(source))


def from_source(path: str, entry: str, target: str) -> EntryPoint:
    """A unit of C or CUDA as it stands."""
    from noeira.runtime.c.compiler import require_compiler

    source = unit_source(path)
    plans = [*source.parsed]
    plan = chosen(plans, path, entry)
    toolchain = TARGETS[target].open()
    if isinstance(toolchain, ReferenceToolchain):
        # There is no compiler: this says how to get one.
        require_compiler()
        raise NoeiraError(f"{path} needs a C compiler")
    made = render_plans(source.name, plans, plan_target(plan, path, toolchain))
    if renumbered(source.text) != renumbered(made.text):
        print(f"running {path} as it stands (edited)")
        toolchain = toolchain.lenient()
    return toolchain.entry(plan, toolchain.build(source), plans.index(plan))


def from_library(path: str, entry: str) -> EntryPoint:
    """A built unit."""
    check_whole(path)
    try:
        library = ctypes.CDLL(str(Path(path).absolute()))
        start = ctypes.addressof(ctypes.c_char.in_dll(library, PLANS_SYMBOL))
    except OSError as error:
        raise NoeiraError(f"{path} cannot be loaded: {error}") from None
    except ValueError:
        raise NoeiraError(
            f"{path} has no {PLANS_SYMBOL}: it is no unit that noeira built"
        ) from None
    text = ctypes.string_at(start).decode()
    return CompiledEntry(chosen(plans_in_text(path, text), path, entry), library)


def from_cubin(path: str, entry: str) -> EntryPoint:
    """Machine code for a GPU."""
    from noeira.runtime.cuda.toolchain import cuda_toolchain

    check_whole(path)
    data = Path(path).read_bytes()
    start = data.find(PLAN_VERSION.encode())
    if start < 0:
        raise NoeiraError(f"{path} has no plans: it is no unit that noeira built")
    plans = plans_in_text(path, data[start : data.index(b"\0", start)].decode())
    plan = chosen(plans, path, entry)
    toolchain = cuda_toolchain()
    made = render_plans(plan.graph.network, plans, plan_target(plan, path, toolchain))
    with toolchain.device.session():
        module = toolchain.device.load(Path(path).absolute(), plan.target.split()[-1])
    return LaunchedEntry(plan, toolchain.device, module, made.symbols[plans.index(plan)])


def check_whole(path: str) -> None:
    """Raises NoeiraError if the file is missing or an incomplete ELF one: that can crash."""
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise NoeiraError(f"{path} cannot be read: {error.strerror or error}") from None
    if data[:5] != b"\x7fELF\x02":
        return
    # ELF-64: the table of sections (its place at 40, the size of a row at 58, their number at 60)
    # comes last.
    if len(data) >= 64:
        (table,) = struct.unpack_from("<Q", data, 40)
        size, count = struct.unpack_from("<HH", data, 58)
        if table + size * count <= len(data):
            return
    raise NoeiraError(f"{path} is damaged: its end is missing")


def chosen(plans: list[Plan], path: str, entry: str) -> Plan:
    """One of a unit's plans; by default the last. Raises NoeiraError that lists them."""
    found = {plan.graph.entry: plan for plan in plans}
    if not entry:
        return plans[-1]
    if entry not in found:
        raise NoeiraError(f"{path} has no entry {entry!r}; it has {', '.join(found)}")
    return found[entry]


def plan_target(plan: Plan, path: str, toolchain: Toolchain) -> Target:
    """The target that a plan was made for. Raises NoeiraError if this machine cannot run it."""
    own, wanted = toolchain.target, target_named(plan.target)
    if not isinstance(own, CTarget) or not isinstance(wanted, CTarget):
        fits = own.language == wanted.language
    else:
        fits = wanted.isa == own.isa or wanted.isa.name in ALSO_RUNS.get(own.isa.name, ())
    if not fits:
        raise NoeiraError(
            f"{path} is for {plan.target}, this machine is {own.name}: "
            f"run the .nir that it was made from"
        )
    return wanted
