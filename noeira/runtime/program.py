"""A program: entry points over one store, called with NumPy arrays."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Never, Protocol

from noeira.errors import DataError, NoeiraError, OptionError, ShapeError
from noeira.ir.arrays import dtype_name, shortest
from noeira.ir.choices import NO_CHOICES, Choices
from noeira.ir.entry import EVALUATE, FOLD, FORWARD, GRADIENTS, MICRO, STEP, STEPS
from noeira.ir.graph import Input
from noeira.ir.numbers import finite_number, whole_number
from noeira.ir.states import (
    EMA,
    EPOCH_STEPS,
    GATHERED_ROWS,
    LEARNING_RATE,
    LOSS,
)
from noeira.ir.types import DTYPES
from noeira.runtime import resume
from noeira.runtime.arguments import inputs_and_targets, label
from noeira.runtime.averages import AVERAGED, NO_AVERAGE, begin_averages, exchange
from noeira.runtime.batches import call_in_parts, call_on_batch, call_on_rows
from noeira.runtime.entries import ADVICE, EPOCHS_UNKNOWN, BuildResident, Entries
from noeira.runtime.interrupts import PutOff
from noeira.runtime.prepared import Prepared
from noeira.runtime.resident import (
    EvaluationData,
    TrainingData,
    built,
    evaluation_samples,
    training_samples,
)
from noeira.runtime.store import Store
from noeira.runtime.tensors import Parameters, Tensors

if TYPE_CHECKING:
    import numpy as np

    from noeira.runtime.built_unit import BuiltUnit
    from noeira.runtime.entry_point import EntryPoint


class Metric(Protocol):
    """What a program knows of a metric."""

    @property
    def share(self) -> bool:
        """Whether it is a part of a whole."""
        ...

    def value(self, mean: float) -> float:
        """The metric, given the mean over all the data."""
        ...


class Program(Entries):
    """A compiled network. Calls from several threads wait for each other.

    batch: the rows that `step` and `gradients` take. target: `cpu`, `cuda`, `cuda-cpu` or
    `reference`. choices: the table it is compiled with. metrics: by the names that
    `evaluate` gives them. buffers: their paths. counter: the state that counts updates of the
    optimizer; empty if there is none. parts: those that a batch is taken in.
    """

    def __init__(
        self,
        name: str,
        store: Store,
        build_entries: Callable[[], BuiltUnit],
        build_resident: BuildResident,
        inputs: tuple[Input, ...],
        *,
        batch: int,
        target: str,
        seed: int,
        counter: str,
        evaluates: bool,
        metrics: Mapping[str, Metric] | None = None,
        buffers: tuple[str, ...] = (),
        module: Any = None,
        choices: Choices = NO_CHOICES,
        parts: int = 1,
    ) -> None:
        self.counter, self.evaluates, self.metrics = counter, evaluates, metrics or {}
        self.batch, self.target, self.inputs = batch, target, inputs
        self.choices, self.parts = choices, parts
        # The data set that %cursor counts the samples of: their number, and whether it is shuffled.
        self.stands_in: tuple[int, bool] | None = None
        self.prepared = Prepared(store)
        self.params, self.tensors = Parameters(store), Tensors(store, buffers, repr(type(module)))
        super().__init__(name, store, build_entries, build_resident, module, seed)

    def __setattr__(self, name: str, value: Any) -> None:
        """Raises NoeiraError for what has been compiled in, and for a misspelt name, which would
        do nothing.
        """
        if "closed" in self.__dict__:
            if name == "batch":
                raise NoeiraError(f"batch was compiled in: compile(…, batch={value!r})")
            known = name in self.__dict__ or getattr(getattr(Program, name, None), "fset", None)
            if not known:
                hint = "; did you mean lr?" if "learn" in name or "rate" in name else ""
                raise NoeiraError(f"{name} of a program cannot be set{hint}")
        super().__setattr__(name, value)

    def run(self, name: str, *given: Any) -> dict[str, Any]:
        """Call an entry of the program once; gives its results by their names.

        given: arrays of NumPy, or of anything that speaks DLPack: the inputs in order, then the
        targets. `forward` takes any number of rows; others exactly a batch. Raises NoeiraError if
        there is no such entry or it runs over loaded data, ShapeError or DtypeError.
        """
        entry, reads = self.entry(name), self.declared[name].reads
        if name == MICRO:
            raise NoeiraError(f"{name} takes a part of a batch: {STEP} takes the whole of it")
        if reads not in ("rows", "batch", "part"):
            raise NoeiraError(f"{name} takes no arrays: load(x, y) gives the data it runs over")
        if len(given) != len(entry.inputs):
            names = ", ".join(map(label, entry.inputs.values()))
            raise ShapeError(f"{name} takes ({names}), got {len(given)} arrays")
        with self.store.lock:
            self.check_steps(name)
            if reads == "rows":
                results = self.on_rows(entry, given)
            elif reads == "part":
                return self.in_parts(given)
            else:
                call_on_batch(entry, given, self.batch)
                results = [array.copy() for array in entry.outputs()]
        return {v.name: made for v, made in zip(entry.graph.outputs, results, strict=True)}

    def in_parts(self, given: Sequence[Any]) -> dict[str, Any]:
        """A step on a batch, part by part; gives its results by their names."""
        entries = [*[self.entry(MICRO)] * (self.parts - 1), self.entry(STEP)]
        return call_in_parts(entries, given, self.batch, self.own_states[GATHERED_ROWS])

    def check_steps(self, name: str) -> None:
        """Take note that an entry makes steps, if it does. Raises NoeiraError if none can be made
        now.
        """
        if name in (STEP, STEPS):
            self.store.changes += 1
            self.check_parameters()
            if self.blocked:
                raise NoeiraError(self.blocked)

    def check_parameters(self) -> None:
        """Raises NoeiraError while averages are in the place of the parameters."""
        if self.store.averaged:
            raise NoeiraError(AVERAGED)

    def step(self, x: Any, y: Any = ()) -> float:
        """One training step on a batch; gives the loss before the update.

        x: (batch, …), several inputs as a tuple; y: the target, several as a tuple, nothing for a
        loss that takes none. A loss that is not finite leaves parameters, moments, buffers and the
        count of updates as they were. Raises ShapeError or DtypeError.
        """
        if self.parts > 1:
            given = inputs_and_targets(self.entry(STEP).graph.inputs, x, y)
            with self.store.lock:
                self.check_steps(STEP)
                return float(self.in_parts(given)[LOSS])
        return self.loss_of(STEP, x, y)

    def gradients(self, x: Any, y: Any = ()) -> float:
        """Loss and gradients of a batch, parameters unchanged; the gradients are then in
        `Param.grd`.
        """
        return self.loss_of(GRADIENTS, x, y)

    def forward(self, x: Any, *more: Never) -> Any:
        """The network's output (of several a tuple), in evaluation mode, for any number of rows.

        x: (N, …), several inputs as a tuple, taken in turns of `batch` rows: many at a time are
        faster where that is more than one. Raises ShapeError or DtypeError.
        """
        if more:
            raise ShapeError(
                "forward takes x alone, several inputs as a tuple, forward((a, b)); with targets "
                "there are step(x, y), gradients(x, y), and evaluate()"
            )
        entry = self.entry(FORWARD)
        given = inputs_and_targets(entry.graph.inputs, x, ())
        with self.store.lock:
            results = self.on_rows(entry, given)
        return results[0] if len(results) == 1 else tuple(results)

    def on_rows(self, entry: EntryPoint, given: Sequence[Any]) -> list[np.ndarray]:
        """Call an entry on any number of rows, with all that it reads prepared."""
        if FOLD in self.entries:
            self.prepared.refresh(self.entries[FOLD])
        return call_on_rows(entry, given, self.batch // self.parts)

    def loss_of(self, name: str, x: Any, y: Any) -> float:
        """Call an entry on a batch and its targets; gives the loss."""
        entry = self.entry(name)
        given = inputs_and_targets(entry.graph.inputs, x, y)
        with self.store.lock:
            self.check_steps(name)
            call_on_batch(entry, given, self.batch)
            return float(entry.output(LOSS))

    def load(
        self,
        x: Any = None,
        y: Any = (),
        *,
        evaluation: tuple[Any, Any] | None = None,
        shuffle: bool = True,
    ) -> None:
        """Keep a data set in memory for `steps`, another for `evaluate`, or both; one that is not
        given stays as it is.

        x: (N, …), y: (N, …), N at least `batch`; for a loss that takes no target y is left out, and
        () in `evaluation`. The order of each epoch follows from the program's seed. Data as many as
        before and in the same way of ordering are gone on with where the last step was; others
        begin at their first sample.
        """
        self.check_load(x, y, evaluation)
        # All that may fail comes before the first change: the data that were there stay then.
        train = [] if x is None else training_samples(self, x, y)
        test = [] if evaluation is None else evaluation_samples(self, evaluation)
        training, tested = built(self, train, test)
        with PutOff(), self.store.lock:
            self.training, self.evaluation = training, tested
            self.have(self.units[0])
            if training is not None and train:
                training.bind(train)
                training.begin(shuffle)
            if tested is not None and test:
                tested.bind(test)

    def check_load(self, x: Any, y: Any, evaluation: Any) -> None:
        """Raises NoeiraError if this program cannot use what `load` was given."""
        self.check_open()
        targets = not (isinstance(y, tuple) and not y)
        if y is None or (x is None and targets) or x is evaluation is None:
            raise DataError(
                "load takes data to train on, load(x, y), or evaluation=(x, y), or both"
            )
        if x is not None and not self.trains:
            raise NoeiraError(
                f"{self.title} cannot be trained: compile it with loss=… and optimizer=…"
            )
        if not self.evaluates:
            raise NoeiraError(f"{self.title} cannot be evaluated: compile it with loss=…")

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a checkpoint, whole or not at all: what `restore` needs for training to go on as if
        it had never stopped; of a program that does not train, the network. Raises CheckpointError,
        or NoeiraError if the program is closed or in `averaged()`.
        """
        self.check_open()
        with self.store.lock:
            self.check_parameters()
            begin_averages(self)
            resume.save(self, path)

    def restore(self, path: str | os.PathLike[str]) -> None:
        """Go on from a checkpoint of this network with this optimizer, before or after `load`: with
        its seed, and at its place in data of the same length and order. Raises CheckpointError if
        the file is no such checkpoint, NoeiraError if the program is closed or in `averaged()`;
        then nothing is changed.
        """
        self.check_open()
        with self.store.lock:
            self.check_parameters()
            resume.restore(self, path)

    def steps(self, n: int = 1) -> float:
        """`n` training steps on the loaded data, the next batches in order; gives the mean loss of
        their samples.

        The smaller last batch of an epoch is a step too. Raises NotFiniteError at a loss that is
        not finite.
        """
        count = whole_number(n)
        if count is None or count < 1:
            raise OptionError(f"steps takes a whole number of at least 1, not {n!r}")
        with self.store.lock:
            self.check_steps(STEPS)
            return self.loaded().steps(count)

    def report(self) -> dict[str, float]:
        """What the last `steps` told: `loss`, a mean over its samples; `grad_norm`, if gradients
        are clipped by their norm, the mean over its steps of that before; `lr`, the learning rate
        of its last step; `step`, the updates made so far. Empty before the first.
        """
        return dict(self.loaded().told)

    def evaluate(self) -> dict[str, float]:
        """Loss and metrics over the loaded evaluation data, by name: `loss`, `accuracy`, …"""
        return self.loaded_evaluation().evaluate()

    def loaded(self) -> TrainingData:
        """The data to train on. Raises NoeiraError if there are none."""
        self.check_open()
        if self.training is None:
            raise NoeiraError(f"{self.title} has no data: {ADVICE[STEPS]}")
        return self.training

    def loaded_evaluation(self) -> EvaluationData:
        """The data to evaluate. Raises NoeiraError if there are none."""
        self.check_open()
        if self.evaluation is None:
            raise NoeiraError(f"{self.title} has no evaluation data: {ADVICE[EVALUATE]}")
        return self.evaluation

    @property
    def lr(self) -> float:
        """The learning rate, a state of the program: assigning it takes effect at the next step. It
        reads as the shortest decimal that stands for the state: 0.001.
        """
        return shortest(self.learning_rate())

    @lr.setter
    def lr(self, value: float) -> None:
        rate = finite_number(value)
        if rate is None or rate < 0:
            raise OptionError(f"lr must be a finite number, 0 or greater, not {value!r}")
        state = self.learning_rate()
        if not DTYPES[dtype := dtype_name(state.dtype)].fits(rate):
            raise OptionError(f"lr cannot be {value!r}, which does not fit in {dtype}")
        state[...] = rate

    @property
    def trains(self) -> bool:
        """Whether it has an optimizer."""
        return bool(self.counter)

    @property
    def updates(self) -> int:
        """The updates that its optimizer has made of the network."""
        self.prepare()
        return int(self.store.current(self.counter)) if self.trains else 0

    @property
    def epoch_steps(self) -> int:
        """The updates in an epoch, for a schedule that counts epochs: `load` knows how many, for
        batches of one's own they are assigned.
        """
        self.entry(STEP)
        return int(self.own_states.get(EPOCH_STEPS, 0))

    @epoch_steps.setter
    def epoch_steps(self, value: int) -> None:
        count = whole_number(value)
        if count is None or count < 1:
            raise OptionError(f"epoch_steps must be a whole number of at least 1, not {value!r}")
        self.entry(STEP)
        if EPOCH_STEPS in self.own_states:
            self.own_states[EPOCH_STEPS][...] = count
            self.blocked = "" if self.blocked == EPOCHS_UNKNOWN else self.blocked

    @contextmanager
    def averaged(self) -> Iterator[None]:
        """In a `with` block, the network has the moving averages of its parameters: `forward`,
        `evaluate`, `params`, `tensors` are about these, and no program of it trains, saves or
        restores. Compiled with `ema=`.
        """
        if EMA not in self.prepare().store.memory:
            raise NoeiraError(NO_AVERAGE)
        with PutOff(), self.store.lock:
            self.check_parameters()
            begin_averages(self)
            exchange(self.store)
        try:
            yield
        finally:
            with PutOff():
                exchange(self.store)

    def learning_rate(self) -> np.ndarray:
        """The state %lr."""
        if LEARNING_RATE not in self.own_states:
            self.entry(STEP)
        return self.own_states[LEARNING_RATE]

    def __enter__(self) -> Program:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __repr__(self) -> str:
        entries = ", ".join(self.entries)
        return f"<program {self.title} on {self.target}, batch {self.batch}: {entries}>"
