"""What is compiled: the graphs that make up a program, each with the passes still to run on it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Unpack

from noeira.errors import NoeiraError
from noeira.ir.builder import Builder
from noeira.ir.entry import DataPass, Entry, in_batches
from noeira.ir.graph import ROOT, ComputeGraph, Origin
from noeira.ir.op import op
from noeira.ir.states import COUNTER, EPOCH, LOSS, ORDER, SEED
from noeira.ir.text.dump import Dump
from noeira.ir.verify import verify
from noeira.nn.core.module import Module
from noeira.options import CompileOptions, Options, options_of, takes
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
from noeira.tracing import graph_name, traced

# Batches of the data set that entries over resident data are shown for where nothing is loaded.
SHOWN_BATCHES = 2


@dataclass(frozen=True)
class Job:
    """What is compiled: a network type and the options that decide its graphs. Made by `job_of`."""

    net: type[Module]
    options: Options

    def entries(self) -> list[Entry]:
        """The entries that need no data set: forward, with a loss gradients, with an optimizer
        step.
        """
        found = [Entry(self.forward(), self.options.batch, "rows")]
        if self.options.loss is not None and self.net.parameters():
            found.append(Entry(self.gradients(), self.options.batch, "batch"))
        if self.options.optimizer is not None:
            found.append(Entry(self.step(), self.options.batch, "batch"))
        return found

    def entries_with_data(self) -> list[Entry]:
        """All entries, those over resident data for a data set of SHOWN_BATCHES batches."""
        found, samples = self.entries(), SHOWN_BATCHES * self.options.batch
        if self.options.optimizer is not None:
            found += self.training(samples).entries
        if self.options.loss is not None:
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
        options = replace(self.options, loss=None, metrics=())
        return dump_of(traced(self.net, options, "eval", "forward"), ())

    def step(self) -> Dump:
        """One training step."""
        return self.training_graph("step", self.options.batch, self.training_passes())

    def gradients(self) -> Dump:
        """Loss and gradients."""
        passes = (Hold(), Vjp(), KeepGradients())
        return self.training_graph("gradients", self.options.batch, passes)

    def training(self, samples: int) -> DataPass:
        """Training steps over resident data, the smaller last batch included."""

        def steps(name: str, rows: int) -> Entry:
            resident = Resident(samples, ((LOSS, float(rows)),))
            passes = (*self.training_passes(), resident)
            return Entry(self.training_graph(name, rows, passes), rows, "training")

        return in_batches("steps", samples, self.options.batch, steps)

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
            options = replace(self.options, batch=rows)
            graph = traced(self.net, options, "eval", name)
            weights = tuple((v.name, float(rows) if v.name == LOSS else 1.0) for v in graph.outputs)
            return Entry(dump_of(graph, (Resident(samples, weights),)), rows, "evaluation")

        return in_batches("evaluate", samples, max(min(self.options.batch, samples), 1), evaluate)

    def training_passes(self) -> tuple[Pass, ...]:
        """The passes that make a loss a training step."""
        return (Vjp(), self.update(), Guard())

    def update(self) -> ApplyOptimizer:
        """The pass that appends the optimizer."""
        assert self.options.optimizer is not None
        chosen = self.options.optimizer
        return ApplyOptimizer(chosen.op, chosen.lr, tuple(chosen.options().items()))

    def training_graph(self, entry: str, rows: int, passes: tuple[Pass, ...]) -> Dump:
        """The network and its loss in training, and what is to be done with them."""
        options = replace(self.options, batch=rows, metrics=())
        return dump_of(traced(self.net, options, "train", entry), passes)


def dump_of(graph: ComputeGraph, passes: tuple[Pass, ...]) -> Dump:
    """A traced graph with the passes still to run: the given ones, then those of every compile."""
    todo = (*passes, DeadCodeElimination(), Fuse(), Own(), Schedule())
    return Dump(verify(graph, after="trace"), ("trace",), tuple(map(str, todo)))


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
