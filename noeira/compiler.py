"""The line: a network type becomes a graph, a training step, a plan, a source text, a program.

    trace -> vjp -> update -> resident -> dce -> fuse -> schedule -> plan -> render -> build

Every stage is frozen and has a text; `NOEIRA_DUMP=folder` writes them all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Unpack

from noeira import config
from noeira.dump import Dumper
from noeira.garbage import uncollected
from noeira.ir.entry import Entry, Purpose
from noeira.ir.plan import Plan
from noeira.ir.states import STEP, optimizer_state
from noeira.ir.text.dump import Dump
from noeira.job import Job, check_unchanged
from noeira.log import log_once
from noeira.nn.core.module import Module
from noeira.options import CompileOptions, Options, options_of, takes
from noeira.passes.pipeline import resume
from noeira.runtime.built_unit import NOTHING, BuiltUnit
from noeira.runtime.program import Program
from noeira.runtime.reference import ReferenceToolchain
from noeira.runtime.targets import TARGETS
from noeira.runtime.toolchain import Toolchain

if TYPE_CHECKING:
    from noeira.codegen.target import Target
    from noeira.runtime.resident import BuiltData


@takes(CompileOptions)
@uncollected()
def compile(net: type[Module] | Module, **options: Unpack[CompileOptions]) -> Program:
    """Compile a network, by type (new parameters) or by instance (the program shares the
    instance's).

    loss: gives the program `gradients`; with an optimizer also `step`, `load` and `steps`.
    batch: rows of a step; `forward` takes any number. input: shapes of one sample, for axes that
    the type leaves open. init, seed: initial values, and the order of training data. dtype: `f32`
    or `f64`. metrics: for `evaluate`. fold: whether `forward` has normalisations by running
    statistics folded into the weights before them. choices: a table of tuned choices or its file
    (see `noeira tune`); default: that of NOEIRA_CHOICES, else the rules.
    target: `cpu`; `cuda`, a GPU; `cuda-cpu`, the same kernels as on a GPU, executed by the CPU; or
    `reference` (NumPy; also what `cpu` falls back to without a compiler, and says so). Raises
    OptionError, CompositionError, ShapeError, FusionError, CompilerError or DeviceError.
    """
    return program_of(net, *options_of(net, options, "compile")).prepare()


def program_of(net: type[Module] | Module, kind: type[Module], options: Options) -> Program:
    """What `compile` gives, with nothing built yet: each unit is built when it is first needed.

    kind: the type of the network.
    """
    instance = (
        net
        if isinstance(net, Module)
        else net(init=options.init, seed=options.seed, dtype=options.dtype)
    )
    config.check_settings()
    for sentence in config.unknown_settings():
        log_once("warning", sentence)
    job = Job(kind, options)
    toolchain = TARGETS[options.target].open(options.choices)
    name = kind.__name__
    entries, units = job.entries(), list[BuiltUnit]()

    def build_entries() -> BuiltUnit:
        units.append(build(name, entries, toolchain))
        return units[0]

    def build_resident(samples: Mapping[Purpose, int]) -> dict[Purpose, BuiltData]:
        check_unchanged(entries)
        declared = {purpose: job.resident(purpose, count) for purpose, count in samples.items()}
        unit = build(name, [e for own, _ in declared.values() for e in own], toolchain, *units)
        parts = {purpose: unit.part(own) for purpose, (own, _) in declared.items()}
        return {purpose: (parts[purpose], declared[purpose][1]) for purpose in samples}

    return Program(
        name,
        instance.store,
        build_entries,
        build_resident,
        job.inputs(entries),
        batch=options.batch,
        target=toolchain.name,
        seed=options.seed,
        counter=optimizer_state(options.optimizer.op, STEP) if options.optimizer else "",
        evaluates=options.loss is not None,
        metrics=dict(zip(options.metric_names, options.metrics, strict=True)),
        buffers=tuple(kind.buffers()),
        module=instance,
        choices=toolchain.choices,
        parts=options.accumulate,
    )


@uncollected()
def build(
    name: str,
    entries: Sequence[Entry],
    toolchain: Toolchain | ReferenceToolchain,
    earlier: BuiltUnit = NOTHING,
) -> BuiltUnit:
    """Entries become one unit of entry points. What the
    program's earlier unit has of its kernels keeps its name, and is not compiled again.
    """
    dumper = Dumper.start(name)
    dumps = [entry.dump for entry in entries]
    if isinstance(toolchain, ReferenceToolchain):
        # Dump -> Dump -> entry points
        return toolchain.unit(entries, [run_passes(dump, dumper).graph for dump in dumps])
    # [Dump] -> Library, where this request has led to one before
    known = earlier is NOTHING or earlier.request
    request = toolchain.request(name, [earlier.request, *map(str, dumps)]) if known else ""
    found = None if dumper.folder else toolchain.warm_start(request)
    if found is None:
        # Dump -> Plan
        plans = [lower(dump, toolchain.target, dumper) for dump in dumps]
        # [Plan] -> Source
        source = toolchain.target.render(name, plans, earlier.plans)
        dumper.source(source)
        # Source -> Library
        found = toolchain.build(source, request), plans
    # Library -> entry points
    return toolchain.unit(entries, request, *found)


def run_passes(dump: Dump, dumper: Dumper | None = None) -> Dump:
    """A graph at any stage with the passes run that are still to do."""
    return resume(dump)(dump, dumper.watch(dump) if dumper else None)


def lower(dump: Dump, target: Target, dumper: Dumper | None = None) -> Plan:
    """A graph at any stage becomes a plan: the passes still to do, then a place for everything."""
    from noeira.planning.memory import make_plan

    plan = make_plan(run_passes(dump, dumper).graph, target.choose, target.name)
    if dumper:
        dumper.plan(plan, len(dump.todo))
    target.check_places(plan)
    return plan
