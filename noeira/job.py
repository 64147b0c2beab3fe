"""What is compiled: the graphs that make up a program, each with the passes still to run on it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from noeira.errors import CompositionError, NoeiraError, ShapeError
from noeira.ir.entry import DataPass, Entry, in_batches
from noeira.ir.graph import ROOT, Builder, ComputeGraph, Origin
from noeira.ir.op import op
from noeira.ir.states import COUNTER, EPOCH, LOSS, ORDER, SEED
from noeira.ir.text import Dump
from noeira.ir.verify import verify
from noeira.nn.core.init import Initializer, Kaiming
from noeira.nn.core.module import Module
from noeira.nn.core.signature import Shape
from noeira.nn.core.targets import check_metrics, target_patterns
from noeira.nn.core.trace import graph_name, per_sample, trace
from noeira.nn.loss import Loss, LossLike, loss_type
from noeira.nn.metrics import Accuracy, MetricLike, metric_types
from noeira.nn.optimizer import Optimizer
from noeira.nn.optimizer import optimizer as optimizer_value
from noeira.passes.base import Pass
from noeira.passes.dce import DeadCodeElimination
from noeira.passes.fuse import Fuse
from noeira.passes.guard import Guard
from noeira.passes.hold import Hold
from noeira.passes.keep_gradients import KeepGradients
from noeira.passes.own import Own
from noeira.passes.resident import Resident
from noeira.passes.schedule import Schedule
from noeira.passes.update import ApplyOptimizer
from noeira.passes.vjp import Vjp
from noeira.runtime.targets import target_called

# Batches of the data set that entries over resident data are shown for where nothing is loaded.
SHOWN_BATCHES = 2


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

    def entries(self) -> list[Entry]:
        """The entries that need no data set: forward, with a loss gradients, with an optimizer
        step.
        """
        found = [Entry(self.forward(), self.batch, "rows")]
        if self.loss is not None and self.net.parameters():
            found.append(Entry(self.gradients(), self.batch, "batch"))
        if self.optimizer is not None:
            found.append(Entry(self.step(), self.batch, "batch"))
        return found

    def entries_with_data(self) -> list[Entry]:
        """All entries, those over resident data for a data set of SHOWN_BATCHES batches."""
        found, samples = self.entries(), SHOWN_BATCHES * self.batch
        if self.optimizer is not None:
            found += self.training(samples).entries
        if self.loss is not None:
            found += self.evaluation(samples).entries
        return found

    def entry(self, name: str) -> Entry:
        """An entry, with or without data. Raises NoeiraError that lists those there are."""
        found = {entry.name: entry for entry in self.entries_with_data()}
        if name not in found:
            raise NoeiraError(f"there is no entry {name!r} here; there are {', '.join(found)}")
        return found[name]

    def forward(self) -> Dump:
        """The network in evaluation mode."""
        return self.dump("forward", self.batch, loss=None, phase="eval")

    def step(self) -> Dump:
        """One training step."""
        return self.dump("step", self.batch, loss=self.loss, passes=self.training_passes())

    def gradients(self) -> Dump:
        """Loss and gradients."""
        passes = (Hold(), Vjp(), KeepGradients())
        return self.dump("gradients", self.batch, loss=self.loss, passes=passes)

    def training(self, samples: int) -> DataPass:
        """Training steps over resident data, the smaller last batch included."""

        def steps(name: str, rows: int) -> Entry:
            resident = Resident(samples, ((LOSS, float(rows)),))
            passes = (*self.training_passes(), resident)
            return Entry(self.dump(name, rows, self.loss, passes=passes), rows, "training")

        return in_batches("steps", samples, self.batch, steps)

    def order(self, samples: int) -> Entry:
        """The order in which an epoch takes the samples of resident data."""
        builder = Builder(f"{graph_name(self.net)}.{ORDER}")
        seed, epoch = builder.input(SEED, COUNTER), builder.input(EPOCH, COUNTER)
        with builder.at(Origin(ROOT, f"data set of {samples}", "trace")):
            order = builder.emit("shuffle", seed, epoch, samples=samples, hint=ORDER)
        return Entry(dump_of(builder.done((order,)), ()), samples, "epoch")

    def evaluation(self, samples: int) -> DataPass:
        """Loss and metrics over resident data; nothing over none."""

        def evaluate(name: str, rows: int) -> Entry:
            graph = self.trace(name, rows, self.loss, "eval", self.metrics)
            weights = tuple((v.name, float(rows) if v.name == LOSS else 1.0) for v in graph.outputs)
            return Entry(dump_of(graph, (Resident(samples, weights),)), rows, "evaluation")

        return in_batches("evaluate", samples, max(min(self.batch, samples), 1), evaluate)

    @property
    def metric_names(self) -> tuple[str, ...]:
        """What evaluation calls its metrics: `accuracy`, `topk[5]`."""
        return tuple(repr(kind).lower() for kind in self.metrics)

    def training_passes(self) -> tuple[Pass, ...]:
        """The passes that make a loss a training step."""
        return (Vjp(), self.update(), Guard())

    def update(self) -> ApplyOptimizer:
        """The pass that appends the optimizer."""
        assert self.optimizer is not None
        chosen = self.optimizer
        return ApplyOptimizer(chosen.op, chosen.lr, tuple(chosen.options().items()))

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
    todo = (*passes, DeadCodeElimination(), Fuse(), Own(), Schedule())
    return Dump(verify(graph, after="trace"), ("trace",), tuple(map(str, todo)))


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
    if chosen is not None and not net.parameters():
        raise CompositionError(f"{net!r} has no parameters, so there is nothing to train")
    kinds = default_metrics(net, loss_kind, input) if metrics is None else metric_types(metrics)
    check_metrics(net, net.solve(*per_sample(net, input)).outputs, loss_kind, kinds, dtype)
    return Job(net, int(batch), loss_kind, chosen, kinds, input, init, dtype)


def default_metrics(
    net: type[Module], loss: type[Loss] | None, input: Shape | tuple[Shape, ...] | None
) -> tuple[type[Module], ...]:
    """Accuracy, where the loss takes one output and class numbers."""
    if loss is None:
        return ()
    outputs = net.solve(*per_sample(net, input)).outputs
    targets = target_patterns(net, outputs, [loss])
    return (Accuracy,) if len(outputs) == len(targets) == 1 and targets[0].limit else ()


def check_type(net: Any) -> None:
    """Raises CompositionError unless `net` is a network type."""
    if not isinstance(net, type) or not issubclass(net, Module):
        raise CompositionError(f"compile takes a network type such as Linear[784, 10], not {net!r}")
    net.need_parameters("compile")


def check_options(batch: Any, target: str, loss: Any, optimizer: Any) -> None:
    """Raises ShapeError, DeviceError or CompositionError for options that cannot be."""
    if isinstance(batch, bool) or not hasattr(batch, "__index__") or batch < 1:
        raise ShapeError(f"batch must be a whole number of at least 1, not {batch!r}")
    target_called(target)
    if optimizer is not None and loss is None:
        raise CompositionError(
            "an optimizer needs a loss: compile(net, loss=CrossEntropy, optimizer=…)"
        )


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
