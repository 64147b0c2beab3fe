"""What is compiled: the graphs that make up a program, each with the passes still to run on it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, Unpack

from noeira.errors import CompositionError, NoeiraError, OptionError
from noeira.ir.builder import Builder
from noeira.ir.entry import (
    EVALUATE,
    FOLD,
    FORWARD,
    GRADIENTS,
    MICRO,
    MICRO_STEPS,
    STEP,
    STEPS,
    WITHOUT_DATA,
    DataPass,
    Entry,
    Purpose,
    in_batches,
)
from noeira.ir.graph import ROOT, ComputeGraph, Input, Origin
from noeira.ir.groups import freezes
from noeira.ir.op import op
from noeira.ir.orders import IMAGES
from noeira.ir.states import COUNTER, EPOCH, GRAD_NORM, LOSS, ORDER, SEED
from noeira.ir.text.dump import Dump
from noeira.ir.verify import verify
from noeira.nn.core.module import Module
from noeira.nn.groups import frozen_groups
from noeira.options import CompileOptions, Options, options_of, takes
from noeira.passes.accumulate import Accumulate
from noeira.passes.anneal import Anneal
from noeira.passes.base import Pass
from noeira.passes.clip import Clip
from noeira.passes.dce import DeadCodeElimination
from noeira.passes.ema import MovingAverage
from noeira.passes.fold import Fold
from noeira.passes.fuse import Fuse
from noeira.passes.guard import Guard
from noeira.passes.hold import Hold
from noeira.passes.keep_gradients import KeepGradients
from noeira.passes.order import Order
from noeira.passes.own import Own
from noeira.passes.prepare import Prepare
from noeira.passes.recompute import Recompute
from noeira.passes.resident import Resident
from noeira.passes.schedule import Schedule
from noeira.passes.update import ApplyOptimizer
from noeira.passes.vjp import Vjp
from noeira.tracing import graph_name, traced

# Batches of the data set that entries over resident data are shown for where nothing is loaded.
SHOWN_BATCHES = 2


@dataclass(frozen=True)
class Job:
    """What is compiled: a network type and the options that decide its graphs.

    graphs: what was traced of it, for entries that begin with the same.
    """

    net: type[Module]
    options: Options
    graphs: dict[object, ComputeGraph] = field(
        default_factory=dict, init=False, compare=False, repr=False
    )

    @property
    def makers(self) -> dict[str, Callable[[], Entry]]:
        """What traces each entry that needs no data set, by name: forward, with a loss gradients,
        with an optimizer step.
        """
        batch = self.options.batch
        found: dict[str, Callable[[], Entry]] = {}
        if self.options.fold:
            found[FOLD] = lambda: Entry(self.folding(), batch, "nothing")
        found[FORWARD] = lambda: Entry(self.forward(), self.options.rows, "rows")
        if self.options.loss is not None and self.net.parameters():
            found[GRADIENTS] = lambda: Entry(self.gradients(), batch, "batch")
        if self.options.accumulate > 1:
            found[MICRO] = lambda: Entry(self.step(complete=False), self.options.rows, "part")
        if self.options.optimizer is not None:
            whole = self.options.accumulate == 1
            found[STEP] = lambda: Entry(
                self.step(), self.options.rows, "batch" if whole else "part"
            )
        return found

    @property
    def makers_with_data(self) -> dict[str, Callable[[], Entry]]:
        """The same of all entries, those over resident data for a data set of SHOWN_BATCHES
        batches.
        """
        found, samples = self.makers, SHOWN_BATCHES * self.options.batch
        if self.options.optimizer is not None:
            if self.options.accumulate > 1:
                found[MICRO_STEPS] = lambda: self.training_entry(MICRO_STEPS, samples)
            found[STEPS] = lambda: self.training_entry(STEPS, samples)
            found[ORDER] = lambda: self.order(samples)
        if self.options.loss is not None:
            found[EVALUATE] = lambda: self.evaluation(samples).entries[0]
        return found

    def entries(self) -> list[Entry]:
        """The entries that need no data set."""
        return [make() for make in self.makers.values()]

    def inputs(self, entries: Sequence[Entry]) -> tuple[Input, ...]:
        """What a sample has, for each input of the network and, with a loss, each target; `entries`
        are those of `entries`.
        """
        last = entries[-1]
        if last.name == FORWARD and self.options.loss is not None:
            last = self.evaluation(self.options.batch).entries[0]
        return last.dump.graph.inputs

    def entry(self, name: str = "") -> Entry:
        """An entry, with or without data; by default that which does most without. Raises
        NoeiraError that lists those there are.
        """
        found = self.makers_with_data
        name = name or next(name for name in WITHOUT_DATA if name in found)
        if name not in found:
            raise NoeiraError(f"there is no entry {name!r} here; there are {', '.join(found)}")
        return found[name]()

    def forward(self) -> Dump:
        """The network in evaluation mode."""
        passes = (Fold(), Prepare()) if self.options.fold else ()
        return dump_of(self.evaluated(FORWARD), passes)

    def folding(self) -> Dump:
        """What `forward` reads where normalisations are folded. Raises OptionError if there are
        none.
        """
        graph = self.evaluated(FOLD)
        if Fold()(graph) is graph:
            raise OptionError(
                f"fold=True has nothing to fold in {self.net!r}: a normalisation by running "
                "statistics, such as BatchNorm2D, right behind a convolution or a Linear whose "
                "result nothing else reads; leave it out"
            )
        return dump_of(graph, (Fold(), Prepare(makes=True)))

    def evaluated(self, entry: str) -> ComputeGraph:
        """The network alone in evaluation mode, before any pass."""
        options = replace(self.options, batch=self.options.rows, loss=None, metrics=())
        return self.graph(entry, options, "eval")

    def step(self, complete: bool = True) -> Dump:
        """One training step; or, where its gradients are added up over several parts of a batch,
        its last part, or one before that.
        """
        rows = self.options.rows
        name = STEP if complete else MICRO
        return self.training_graph(name, rows, self.training_passes(rows, complete))

    def gradients(self) -> Dump:
        """Loss and gradients."""
        passes = (Hold(), Vjp(groups=frozen_groups(self.net)), KeepGradients())
        return self.training_graph(GRADIENTS, self.options.batch, passes)

    def resident(self, purpose: Purpose, samples: int) -> tuple[list[Entry], DataPass]:
        """The entries of a resident data set, and how it is gone through by some of them."""
        if purpose == "evaluation":
            once = self.evaluation(samples)
            return [*once.entries], once
        once = self.training(samples)
        return [*once.entries, self.order(samples)], once

    def training(self, samples: int) -> DataPass:
        """Training steps over resident data, the smaller last batch included."""

        def steps(name: str, rows: int, complete: bool) -> Entry:
            passes = self.training_passes(rows, complete)
            told = [one for one in passes if isinstance(one, Clip) and one.tells_norm]
            weights = ((LOSS, float(rows)), *((GRAD_NORM, 1.0) for _ in told))
            passes = (*passes, Resident(samples, weights))
            try:
                return Entry(self.training_graph(name, rows, passes), rows, "training")
            except CompositionError as error:
                if rows == self.options.rows:
                    raise
                raise self.last_batch(samples, rows, error) from None

        return in_batches(STEPS, samples, self.options.batch, steps, self.options.accumulate)

    def last_batch(self, samples: int, rows: int, error: CompositionError) -> CompositionError:
        """The error for a last batch that is too small to train on, though the others are not."""
        whole = samples - samples % self.options.batch
        return CompositionError(
            f"{samples} samples in batches of {self.options.batch} end with {rows}; take another "
            f"batch, or the first {whole} samples, x[:{whole}]: {error}"
        )

    def training_entry(self, name: str, samples: int) -> Entry:
        """The entry of that name of those over resident data."""
        return next(e for e in self.training(samples).entries if e.name == name)

    def order(self, samples: int) -> Entry:
        """The order in which an epoch takes the samples of resident data."""
        builder = Builder(f"{graph_name(self.net)}.{ORDER}")
        seed, epoch = builder.input(SEED, COUNTER), builder.input(EPOCH, COUNTER)
        with builder.at(Origin(ROOT, f"data set of {samples}", "trace")):
            order = builder.emit("shuffle", seed, epoch, samples=samples, hint=ORDER)
        return Entry(dump_of(verify(builder.done((order,)), after="trace")), samples, "epoch")

    def evaluation(self, samples: int) -> DataPass:
        """Loss and metrics over resident data."""

        def evaluate(name: str, rows: int, complete: bool) -> Entry:
            graph = self.graph(name, replace(self.options, batch=rows), "eval")
            weights = tuple((v.name, float(rows) if v.name == LOSS else 1.0) for v in graph.outputs)
            return Entry(dump_of(graph, (Resident(samples, weights),)), rows, "evaluation")

        return in_batches(EVALUATE, samples, min(self.options.rows, samples), evaluate)

    def training_passes(self, rows: int, complete: bool) -> tuple[Pass, ...]:
        """The passes that make the loss of so many rows a training step, or a part of one that is
        not its last.
        """
        options, groups = self.options, (*frozen_groups(self.net), *self.options.groups)
        assert options.optimizer is not None
        op, lr = options.optimizer.op, options.optimizer.lr
        # What is read by names need not be told of groups that freeze nothing.
        passes: list[Pass] = [Vjp(groups=groups if freezes(groups) else ())]
        if options.accumulate > 1:
            passes.append(Accumulate(rows, complete))
        if complete:
            if (clip := options.clip) is not None:
                passes.append(Clip(clip.op, tuple(clip.options().items()), groups))
            if (schedule := options.schedule) is not None and schedule.op:
                own = tuple(schedule.options().items())
                passes.append(Anneal(schedule.op, own, op, lr, schedule.by_epoch))
            own = tuple(options.optimizer.options().items())
            passes.append(ApplyOptimizer(op, lr, own, groups=groups))
            if options.ema is not None:
                passes.append(MovingAverage(options.ema, op))
        return (*passes, Guard())

    def training_graph(self, entry: str, rows: int, passes: tuple[Pass, ...]) -> Dump:
        """The network and its loss in training, and what is to be done with them."""
        options = replace(self.options, batch=rows, metrics=())
        graph = self.graph(entry, options, "train")
        if graph.regions:
            after = next(i for i, one in enumerate(passes) if isinstance(one, Vjp)) + 1
            passes = (*passes[:after], Recompute(), *passes[after:])
        return dump_of(graph, passes)

    def graph(self, entry: str, options: Options, phase: Literal["train", "eval"]) -> ComputeGraph:
        """The graph of the type, before any pass. What entries do is the work of passes, so that
        many have this in common.
        """
        kind = phase, options.batch, options.loss, options.metrics
        if kind not in self.graphs:
            graph = traced(self.net, options, phase, entry)
            self.graphs[kind] = verify(graph, after="trace")
        return replace(self.graphs[kind], name=f"{graph_name(self.net)}.{entry}")


def dump_of(graph: ComputeGraph, passes: tuple[Pass, ...] = ()) -> Dump:
    """A traced graph with the passes still to run: the given ones, then those of every compile."""
    orders = (Order(),) if has_axes_of_images(graph) else ()
    todo = (*passes, *orders, DeadCodeElimination(), Fuse(), Own(), Schedule())
    return Dump(graph, ("trace",), tuple(map(str, todo)))


def has_axes_of_images(graph: ComputeGraph) -> bool:
    """Whether a value has as many axes as images: then an order may be wanted of it."""
    return any(len(v.type.shape) in IMAGES for node in graph.nodes for v in node.outputs)


@takes(CompileOptions)
def job_of(net: type[Module] | Module, **options: Unpack[CompileOptions]) -> Job:
    """The job of a network under the options of `compile`; nothing is allocated."""
    return Job(*options_of(net, options, "job_of"))


def check_unchanged(entries: Sequence[Entry]) -> None:
    """Raises NoeiraError if an op was defined anew since the graphs were traced: what is built of
    them now would not be what was built before.
    """
    for entry in entries:
        for node in entry.dump.graph.nodes:
            if op(node.op.name) is not node.op:
                raise NoeiraError(
                    f"the op {node.op.name} was defined anew since this program was compiled: "
                    "compile it again"
                )
