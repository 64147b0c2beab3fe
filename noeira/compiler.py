"""The line: a network type becomes a graph, a training step, a plan, a source text, a program.

    trace -> vjp -> update -> (resident) -> dce -> fuse -> schedule -> plan -> render -> build -> run

Every stage is frozen and has a text; `NOEIRA_DUMP=folder` writes them all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from noeira.errors import CompositionError, DeviceError, ShapeError
from noeira.ir.graph import ComputeGraph
from noeira.ir.plan import Plan, parse_plan
from noeira.ir.text import Dump
from noeira.ir.verify import verify
from noeira.nn.core.init import Initializer, Kaiming
from noeira.nn.core.module import Module
from noeira.nn.core.signature import Shape
from noeira.nn.core.trace import trace
from noeira.nn.loss import Loss, LossLike, loss_type
from noeira.nn.metrics import Accuracy, MetricLike, metric_type
from noeira.nn.optimizer import Optimizer
from noeira.nn.optimizer import optimizer as optimizer_value
from noeira.passes.base import Pass
from noeira.passes.dce import DeadCodeElimination
from noeira.passes.fuse import Fuse
from noeira.passes.keep_gradients import KeepGradients
from noeira.passes.pipeline import resume
from noeira.passes.resident import Resident
from noeira.passes.schedule import Schedule
from noeira.passes.update import ApplyOptimizer
from noeira.passes.vjp import Vjp
from noeira.runtime.dump import Dumper
from noeira.runtime.program import Program, Unit

if TYPE_CHECKING:
    from noeira.codegen.c import CTarget
    from noeira.codegen.source import Source
    from noeira.runtime.build import Library
    from noeira.runtime.cache import Cache
    from noeira.runtime.entry_point import EntryPoint
    from noeira.runtime.toolchain import Compiler

TARGETS = ("cpu", "reference")


@dataclass(frozen=True)
class Job:
    """What is compiled: a network type with everything that decides its graphs."""

    net: type[Module]
    batch: int = 1
    loss: type[Loss] | None = None
    optimizer: Optimizer | None = None
    metrics: tuple[type[Module], ...] = ()
    input: Shape | tuple[Shape, ...] | None = None
    init: Initializer | type[Initializer] = Kaiming
    dtype: str = "f32"

    def entries(self) -> list[Dump]:
        """The entries that need no data set: forward, with a loss gradients, with an optimizer
        step.
        """
        found = [self.forward()]
        if self.loss is not None:
            found.append(self.gradients())
        if self.optimizer is not None:
            found.append(self.step())
        return found

    def forward(self) -> Dump:
        """The network in evaluation mode."""
        return self.dump("forward", self.batch, loss=None, phase="eval")

    def step(self) -> Dump:
        """One training step."""
        return self.dump("step", self.batch, loss=self.loss, passes=(Vjp(), self.update()))

    def gradients(self) -> Dump:
        """Loss and gradients."""
        return self.dump("gradients", self.batch, loss=self.loss, passes=(Vjp(), KeepGradients()))

    def fit(self, samples: int) -> list[Dump]:
        """Training steps over resident data: one of the full batch, and one of the smaller last
        one.
        """
        found = list[Dump]()
        for entry, rows in batches("fit", samples, self.batch):
            resident = Resident(samples, (("loss", float(rows)),))
            passes = (Vjp(), self.update(), resident)
            found.append(self.dump(entry, rows, loss=self.loss, passes=passes))
        return found

    def evaluate(self, samples: int) -> list[Dump]:
        """Loss and metrics over resident data."""
        found = list[Dump]()
        for entry, rows in batches("evaluate", samples, min(self.batch, samples)):
            graph = self.trace(entry, rows, self.loss, "eval", self.metrics)
            weights = tuple(
                (v.name, float(rows) if v.name == "loss" else 1.0) for v in graph.outputs
            )
            found.append(dump_of(graph, (Resident(samples, weights),)))
        return found

    def update(self) -> ApplyOptimizer:
        """The pass that appends the optimizer."""
        assert self.optimizer is not None
        infos = self.net.parameters()
        layout = self.net.layout()
        decayed = max((m.end for m in layout.members if infos[m.name].decay), default=0)
        chosen = self.optimizer
        options = tuple(chosen.options().items())
        return ApplyOptimizer(chosen.op, chosen.lr, options, decayed)

    def dump(
        self,
        entry: str,
        batch: int,
        loss: type[Loss] | None,
        phase: Literal["train", "eval"] = "train",
        passes: tuple[Pass, ...] = (),
    ) -> Dump:
        """A traced graph, and what is to be done with it."""
        return dump_of(self.trace(entry, batch, loss, phase), passes)

    def trace(
        self,
        entry: str,
        batch: int,
        loss: type[Loss] | None,
        phase: Literal["train", "eval"],
        metrics: tuple[type[Module], ...] = (),
    ) -> ComputeGraph:
        """The graph of the type, before any pass."""
        return trace(
            self.net,
            batch=batch,
            loss=loss,
            metrics=metrics,
            input=self.input,
            phase=phase,
            init=self.init,
            dtype=self.dtype,
            entry=entry,
        )


def dump_of(graph: ComputeGraph, passes: tuple[Pass, ...]) -> Dump:
    """A traced graph with the passes still to run: the given ones, then those of every compile."""
    todo = (*passes, DeadCodeElimination(), Fuse(), Schedule())
    return Dump(verify(graph, after="trace"), ("trace",), tuple(map(str, todo)))


def batches(entry: str, samples: int, batch: int) -> list[tuple[str, int]]:
    """The entries that go once through a data set: whole batches, and what is left."""
    rest = samples % batch
    return [(entry, batch), *([(f"{entry}.last", rest)] if rest else [])]


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
) -> Program:
    """Compile a network, by type (new parameters) or by instance (the program shares the
    instance's).

    loss: gives the program `gradients`; with an optimizer also `step`, `load` and `steps`.
    batch: rows of a step; `forward` takes any number. input: shapes of one sample, for axes that
    the type leaves open. init, seed: initial values, and the order of training data. dtype: `f32`
    or `f64`. metrics: for `evaluate`.
    target: `cpu`, or `reference` (NumPy; also what `cpu` falls back to without a compiler, and says
    so). Raises CompositionError, ShapeError, FusionError or CompilerError.
    """
    program = program_of(net, loss, optimizer, batch, input, init, seed, dtype, target, metrics)
    return program.prepare()


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
) -> Program:
    """What `compile` gives, with nothing built yet: each unit is built when it is first needed."""
    check_options(batch, target, loss, optimizer)
    if isinstance(net, Module):
        instance, dtype = net, net.store.dtype
    else:
        check_type(net)
        net.solve(*sample_shapes(net, input))
        instance = net(init=init, seed=seed, dtype=dtype)  # type: ignore[arg-type]
    job = make_job(type(instance), loss, optimizer, batch, input, init, dtype, metrics)
    chosen = choose_target(target)
    name = type(instance).__name__
    dumps = job.entries()

    def build_resident(samples: int, test_samples: int) -> Unit:
        resident = [*job.fit(samples), *(job.evaluate(test_samples) if test_samples else [])]
        return build(name, resident, chosen)

    return Program(
        name,
        instance.store,
        lambda: build(name, dumps, chosen),
        build_resident,
        dumps[-1].graph.inputs,
        batch=batch,
        target="reference" if chosen is None else "cpu",
        seed=seed,
        trains=job.optimizer is not None,
        module=instance,
    )


def make_job(
    net: type[Module],
    loss: LossLike | None,
    optimizer: Optimizer | type[Optimizer] | None,
    batch: int,
    input: Shape | tuple[Shape, ...] | None,
    init: Initializer | type[Initializer],
    dtype: str,
    metrics: Sequence[MetricLike] | None,
) -> Job:
    """The job behind the options of `compile`: losses, metrics and optimizers in whatever form they
    were given.
    """
    loss_kind = None if loss is None else loss_type(loss)
    chosen = None if optimizer is None else optimizer_value(optimizer)
    if metrics is None:
        kinds = default_metrics(net, loss_kind, input)
    else:
        kinds = tuple(metric_type(m) for m in metrics)
    return Job(net, batch, loss_kind, chosen, kinds, input, init, dtype)


def default_metrics(
    net: type[Module], loss: type[Loss] | None, input: Shape | tuple[Shape, ...] | None
) -> tuple[type[Module], ...]:
    """Accuracy, where the loss takes class numbers."""
    if loss is None:
        return ()
    prediction = net.solve(*sample_shapes(net, input)).outputs[0]
    target = loss.solve(prediction.written(), None).inputs[1]
    return (Accuracy,) if target.limit is not None else ()


def sample_shapes(net: type[Module], input: Any) -> tuple[Any, ...]:
    """The `input` option as one shape for each input of the network."""
    from noeira.nn.core.trace import per_sample

    return per_sample(net, input)


def check_type(net: Any) -> None:
    """Raises CompositionError unless `net` is a network type."""
    if not isinstance(net, type) or not issubclass(net, Module):
        raise CompositionError(f"compile takes a network type such as Linear[784, 10], not {net!r}")
    net.need_parameters("compile")


def check_options(batch: Any, target: str, loss: Any, optimizer: Any) -> None:
    """Raises ShapeError, DeviceError or CompositionError for options that cannot be."""
    if isinstance(batch, bool) or not isinstance(batch, int) or batch < 1:
        raise ShapeError(f"batch must be a whole number of at least 1, not {batch!r}")
    if target not in TARGETS:
        raise DeviceError(f"there is no target {target!r}; there are {', '.join(TARGETS)}")
    if optimizer is not None and loss is None:
        raise CompositionError(
            "an optimizer needs a loss: compile(net, loss=CrossEntropy, optimizer=…)"
        )


@dataclass(frozen=True)
class Builder:
    """What turns plans into C programs: the target, the compiler and the cache."""

    target: CTarget
    compiler: Compiler
    cache: Cache


def choose_target(target: str) -> Builder | None:
    """The C builder, or None for the reference."""
    if target == "reference":
        return None
    from noeira.runtime.cache import open_cache
    from noeira.runtime.toolchain import find_compiler

    cache = open_cache()
    compiler = find_compiler(cache)
    if compiler is None:
        warn_once(
            "no C compiler was found: programs run on the NumPy reference, slowly; "
            "`noeira doctor` says how to get one"
        )
        return None
    from noeira.codegen.c import CTarget

    return Builder(CTarget(compiler.isa), compiler, cache)


_warned: set[str] = set()


def warn_once(message: str) -> None:
    """Log a warning, the first time only."""
    import logging

    if message not in _warned:
        _warned.add(message)
        logging.getLogger("noeira").warning(message)


def build(name: str, dumps: Sequence[Dump], builder: Builder | None) -> Unit:
    """Traced graphs become one unit of entry points."""
    if builder is None:
        return reference_unit(name, dumps)
    # the request in the cache -> the library, without passes or rendering
    key = request_key(name, dumps, builder)
    found = warm_start(key, builder)
    if found is None:
        dumper = Dumper.start(name)
        # Dump -> Plan
        plans = [lower(dump, builder.target, dumper) for dump in dumps]
        # [Plan] -> Source
        source = render_plans(name, plans, builder.target)
        dumper.source(source)
        # Source -> Library
        found = compile_source(source, builder), plans
        builder.cache.remember(key, found[0].key)
    library, plans = found
    # Library -> entry points
    return load_unit(library, plans, dumps)


def lower(dump: Dump, target: CTarget, dumper: Dumper | None = None) -> Plan:
    """A graph at any stage becomes a plan: run the passes that are still to do, then place
    everything.
    """
    from noeira.passes.memory import make_plan

    watch = dumper.watch(dump) if dumper else None
    done = resume(dump)(dump, watch)
    plan = make_plan(done.graph, target.choose, target.name)
    if dumper:
        dumper.plan(plan)
    return plan


def render_plans(name: str, plans: Sequence[Plan], target: CTarget) -> Source:
    """Plans become one unit of source."""
    from noeira.codegen.render import render

    return render(name, plans, target)


def compile_source(source: Source, builder: Builder) -> Library:
    """The unit's library, built or from the cache."""
    from noeira.runtime.build import build_library

    return build_library(source, builder.compiler, builder.cache)


def request_key(name: str, dumps: Sequence[Dump], builder: Builder) -> str:
    """What decides a unit: graphs and passes to run, target, compiler, and noeira's own sources."""
    from noeira.runtime.entry import digest_of
    from noeira.runtime.own import own_digest

    own = own_digest(builder.cache)
    texts = map(str, dumps)
    return digest_of("request", name, own, builder.target.name, builder.compiler.identity, *texts)


def warm_start(key: str, builder: Builder) -> tuple[Library, list[Plan]] | None:
    """The library that this request led to before, and its plans."""
    from noeira.config import DUMP
    from noeira.runtime.build import open_library

    unit = builder.cache.recall(key)
    if unit is None or DUMP.read() is not None:
        return None
    library = open_library(unit, builder.compiler, builder.cache)
    return None if library is None else (library, split_plans(library.plans))


def split_plans(text: str) -> list[Plan]:
    """The plans of a unit, from their text one after the other."""
    from noeira.ir.plan import VERSION

    return [parse_plan(VERSION + part) for part in text.split(VERSION)[1:]]


def load_unit(library: Library, plans: Sequence[Plan], dumps: Sequence[Dump]) -> Unit:
    """The entry points of a built library."""
    from noeira.runtime.build import load
    from noeira.runtime.entry_point import CompiledEntry

    handle = load(library)
    entries: dict[str, EntryPoint] = {
        entry_name(dump): CompiledEntry(plan, handle)
        for dump, plan in zip(dumps, plans, strict=True)
    }
    source = library.entry.read("unit.c").decode()
    return Unit(entries, source, str(library.entry_folder))


def reference_unit(name: str, dumps: Sequence[Dump]) -> Unit:
    """Entry points that run the graphs with NumPy."""
    from noeira.runtime.entry_point import ReferenceEntry

    dumper = Dumper.start(name)
    entries: dict[str, EntryPoint] = {}
    for dump in dumps:
        done = resume(dump)(dump, dumper.watch(dump))
        entries[entry_name(dump)] = ReferenceEntry(done.graph)
    return Unit(entries)


def entry_name(dump: Dump) -> str:
    """`step` for a graph called `mlp.step`."""
    return dump.graph.name.partition(".")[2]
