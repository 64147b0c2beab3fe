"""The line: a network type becomes a graph, a training step, a plan, a source text, a program.

    trace -> vjp -> update -> resident -> dce -> fuse -> schedule -> plan -> render -> build

Every stage is frozen and has a text; `NOEIRA_DUMP=folder` writes them all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from noeira import config
from noeira.codegen.choices import ChoicesLike
from noeira.dump import Dumper
from noeira.errors import CompositionError, DtypeError
from noeira.ir.entry import DataPass, Entry
from noeira.ir.plan import Plan
from noeira.ir.text import Dump
from noeira.job import check_options, check_type, check_unchanged, make_job
from noeira.log import log_once
from noeira.nn.core.init import Initializer, Kaiming
from noeira.nn.core.module import Module
from noeira.nn.core.signature import Shape
from noeira.nn.core.trace import per_sample
from noeira.nn.loss import LossLike
from noeira.nn.metrics import MetricLike
from noeira.nn.optimizer import Optimizer
from noeira.passes.pipeline import resume
from noeira.runtime.program import Program
from noeira.runtime.reference import ReferenceToolchain
from noeira.runtime.targets import TARGETS
from noeira.runtime.toolchain import Toolchain
from noeira.runtime.unit import NOTHING, Unit

if TYPE_CHECKING:
    from noeira.codegen.source import Source
    from noeira.codegen.target import Target


def compile(
    net: type[Module] | Module,
    loss: LossLike | None = None,
    optimizer: Optimizer | type[Optimizer] | None = None,
    batch: int = 1,
    input: Shape | tuple[Shape, ...] | None = None,
    init: Initializer | type[Initializer] = Kaiming,
    seed: int = 0,
    dtype: Literal["f32", "f64"] = "f32",
    target: str = "cpu",
    metrics: Sequence[MetricLike] | None = None,
    choices: ChoicesLike = None,
) -> Program:
    """Compile a network, by type (new parameters) or by instance (the program shares the
    instance's).

    loss: gives the program `gradients`; with an optimizer also `step`, `load` and `steps`.
    batch: rows of a step; `forward` takes any number. input: shapes of one sample, for axes that
    the type leaves open. init, seed: initial values, and the order of training data. dtype: `f32`
    or `f64`. metrics: for `evaluate`. choices: a table of tuned choices or its file (see `noeira
    tune`); default: that of NOEIRA_CHOICES, else the rules.
    target: `cpu`; `cuda`, a GPU; `cuda-cpu`, the same kernels as on a GPU, executed by the CPU; or
    `reference` (NumPy; also what `cpu` falls back to without a compiler, and says so). Raises
    CompositionError, ShapeError, FusionError, CompilerError or DeviceError.
    """
    return program_of(
        net, loss, optimizer, batch, input, init, seed, dtype, target, metrics, choices
    ).prepare()


def program_of(
    net: type[Module] | Module,
    loss: LossLike | None,
    optimizer: Optimizer | type[Optimizer] | None,
    batch: int,
    input: Shape | tuple[Shape, ...] | None,
    init: Initializer | type[Initializer],
    seed: int,
    dtype: str,
    target: str,
    metrics: Sequence[MetricLike] | None = None,
    choices: ChoicesLike = None,
) -> Program:
    """What `compile` gives, with nothing built yet: each unit is built when it is first needed."""
    check_options(batch, target, loss, optimizer)
    if isinstance(net, Module):
        if net.path:
            raise CompositionError(f"compile takes a whole network; this is its part at {net.path}")
        if dtype not in ("f32", net.store.dtype):
            raise DtypeError(f"the instance's parameters are {net.store.dtype}, not {dtype}")
        instance, dtype = net, net.store.dtype
    else:
        check_type(net)
        net.solve(*per_sample(net, input))
        instance = net(init=init, seed=seed, dtype=dtype)  # type: ignore[arg-type]
    for sentence in config.unknown_settings():
        log_once("warning", sentence)
    job = make_job(type(instance), loss, optimizer, batch, input, init, dtype, metrics)
    toolchain = TARGETS[target].open(TARGETS[target].table(choices))
    name = type(instance).__name__
    entries, units = job.entries(), list[Unit]()

    def build_entries() -> Unit:
        units.append(build(name, entries, toolchain))
        return units[0]

    def build_resident(samples: int, test_samples: int) -> tuple[Unit, DataPass, DataPass]:
        check_unchanged(entries)
        training, evaluation = job.training(samples), job.evaluation(test_samples)
        resident = [*training.entries, job.order(samples), *evaluation.entries]
        return build(name, resident, toolchain, *units), training, evaluation

    return Program(
        name,
        instance.store,
        build_entries,
        build_resident,
        entries[-1].dump.graph.inputs,
        batch=job.batch,
        target=toolchain.name,
        seed=seed,
        trains=job.optimizer is not None,
        metrics=job.metric_names,
        module=instance,
        choices=toolchain.choices,
    )


def build(
    name: str,
    entries: Sequence[Entry],
    toolchain: Toolchain | ReferenceToolchain,
    earlier: Unit = NOTHING,
) -> Unit:
    """Entries become one unit of entry points. What the
    program's earlier unit has of its kernels keeps its name, and is not compiled again.
    """
    dumper = Dumper.start(name)
    dumps = [entry.dump for entry in entries]
    if isinstance(toolchain, ReferenceToolchain):
        # Dump -> Dump -> entry points
        return toolchain.unit(entries, [run_passes(dump, dumper).graph for dump in dumps])
    # [Dump] -> Library, where this request has led to one before
    request = toolchain.request(name, [earlier.request, *map(str, dumps)])
    found = None if dumper.folder else toolchain.warm_start(request)
    if found is None:
        # Dump -> Plan
        plans = [lower(dump, toolchain.target, dumper) for dump in dumps]
        # [Plan] -> Source
        source = render_plans(name, plans, toolchain.target, earlier.plans)
        dumper.source(source)
        # Source -> Library
        found = toolchain.build(source, request, earlier.key), plans
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
        dumper.plan(plan)
    return plan


def render_plans(
    name: str, plans: Sequence[Plan], target: Target, earlier: Sequence[Plan] = ()
) -> Source:
    """Plans become one unit of source; kernels of earlier plans have the names they have there."""
    return target.render(name, plans, earlier)
