"""A program: entry points over one store, called with NumPy arrays."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, Protocol, TypeAlias

from noeira.errors import DataError, NoeiraError, OptionError, ShapeError
from noeira.ir.arrays import dtype_name
from noeira.ir.choices import NO_CHOICES, Choices
from noeira.ir.entry import EVALUATE, FORWARD, GRADIENTS, STEP, STEPS
from noeira.ir.graph import Input
from noeira.ir.initial import begin_state
from noeira.ir.numbers import finite_number, whole_number
from noeira.ir.states import LEARNING_RATE, LOSS, is_of_program
from noeira.ir.types import DTYPES
from noeira.runtime import resume
from noeira.runtime.arguments import inputs_and_targets, label
from noeira.runtime.batches import call_on_batch, call_on_rows
from noeira.runtime.interrupts import PutOff
from noeira.runtime.resident import (
    EvaluationData,
    TrainingData,
    built,
    evaluation_samples,
    training_samples,
)
from noeira.runtime.store import Store, aligned_zeros
from noeira.runtime.tensors import Parameters, Tensors

if TYPE_CHECKING:
    import numpy as np

    from noeira.ir.entry import Entry, Purpose
    from noeira.runtime.built_unit import BuiltUnit
    from noeira.runtime.entry_point import EntryPoint
    from noeira.runtime.resident import BuiltData


class Metric(Protocol):
    """What a program knows of a metric."""

    share: ClassVar[bool]

    def value(self, mean: float) -> float:
        """The metric, given the mean over all the data."""
        ...


# Builds the entries of resident data sets, given the number of samples of each.
BuildResident: TypeAlias = "Callable[[Mapping[Purpose, int]], dict[Purpose, BuiltData]]"

# What makes a program have an entry.
ADVICE = {
    STEP: "compile it with loss=… and optimizer=…",
    GRADIENTS: "compile it with loss=…",
    STEPS: "call load(x, y) first",
    EVALUATE: "call load(evaluation=(x, y)) first",
}
# Characters of a network's type in messages.
LONGEST_TITLE = 60


class Program:
    """A compiled network. Calls from several threads wait for each other.

    batch: the rows that `step` and `gradients` take. target: `cpu`, `cuda`, `cuda-cpu` or
    `reference`. choices: the table it is compiled with. metrics: by the names that
    `evaluate` gives them. buffers: their paths.
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
        trains: bool,
        evaluates: bool,
        metrics: Mapping[str, Metric] | None = None,
        buffers: tuple[str, ...] = (),
        module: Any = None,
        choices: Choices = NO_CHOICES,
    ) -> None:
        self.trains, self.evaluates, self.metrics = trains, evaluates, metrics or {}
        self.name, self.store, self.batch, self.target, self.seed = name, store, batch, target, seed
        self.module, self.choices = module, choices
        self.build_entries, self.build_resident, self.inputs = build_entries, build_resident, inputs
        self.own_states: dict[str, np.ndarray] = {}
        self.units: list[BuiltUnit] = []
        self.entries: dict[str, EntryPoint] = {}
        self.declared: dict[str, Entry] = {}
        self.training: TrainingData | None = None
        self.evaluation: EvaluationData | None = None
        # The data set that %cursor counts the samples of: their number, and whether it is shuffled.
        self.stands_in: tuple[int, bool] | None = None
        self.params, self.tensors = Parameters(store), Tensors(store, buffers)
        self.ready = self.closed = False

    def __setattr__(self, name: str, value: Any) -> None:
        """Raises NoeiraError for what has been compiled in, and for a misspelt name, which would
        do nothing.
        """
        if "closed" in self.__dict__:
            if name == "batch":
                raise NoeiraError(f"batch was compiled in: compile(…, batch={value!r})")
            if name != "lr" and name not in self.__dict__:
                hint = "; did you mean lr?" if "learn" in name or "rate" in name else ""
                raise NoeiraError(f"{name} of a program cannot be set{hint}")
        super().__setattr__(name, value)

    def have(self, base: BuiltUnit) -> None:
        """Have the entries of this unit, and those of the data that are loaded."""
        loaded = (self.training, self.evaluation)
        self.units = [base, *(data.unit for data in loaded if data is not None)]
        self.entries = {name: e for unit in self.units for name, e in unit.entries.items()}
        self.declared = {entry.name: entry for unit in self.units for entry in unit.declared}

    def prepare(self) -> Program:
        """Build the entries that need no data set, if that has not been done."""
        if not self.ready:
            unit = self.build_entries()
            self.connect_all(unit)
            self.have(unit)
            self.ready = True
        return self

    def connect_all(self, unit: BuiltUnit) -> None:
        """Give the entries of a unit the memory of their states."""
        for entry in unit.entries.values():
            self.connect(entry)

    def connect(self, entry: EntryPoint) -> None:
        """Give an entry the memory of its states."""
        for state in entry.graph.states:
            name, type = state.value.name, state.value.type
            own = is_of_program(name)
            fresh = name not in (self.own_states if own else self.store.memory)
            if own:
                array = self.own_states.setdefault(name, aligned_zeros(type))
            else:
                array = self.store.array(name, type)
            if fresh:
                graph = entry.graph
                begin_state(graph.states, graph.layouts, state, self.seed, array)
            entry.bind_state(name, array, None if own else self.store)

    def entry(self, name: str) -> EntryPoint:
        """An entry point by name. Raises NoeiraError that says what is missing."""
        found = self.entries.get(name)
        if found is not None:
            return found
        self.check_open()
        if name not in self.prepare().entries:
            advice = ADVICE.get(name, f"it has {', '.join(self.entries)}")
            raise NoeiraError(f"{self.title} has no {name}: {advice}")
        return self.entries[name]

    def run(self, name: str, *given: Any) -> dict[str, Any]:
        """Call an entry of the program once; gives its results by their names.

        given: arrays of NumPy, or of anything that speaks DLPack: the inputs in order, then the
        targets. `forward` takes any number of rows; others exactly a batch. Raises NoeiraError if
        there is no such entry or it runs over loaded data, ShapeError or DtypeError.
        """
        entry, reads = self.entry(name), self.declared[name].reads
        if reads not in ("rows", "batch"):
            raise NoeiraError(f"{name} takes no arrays: load(x, y) gives the data it runs over")
        if len(given) != len(entry.inputs):
            names = ", ".join(map(label, entry.inputs.values()))
            raise ShapeError(f"{name} takes ({names}), got {len(given)} arrays")
        with self.store.lock:
            if reads == "rows":
                results = call_on_rows(entry, given, self.batch)
            else:
                call_on_batch(entry, given, self.batch)
                results = [array.copy() for array in entry.outputs()]
        return {v.name: made for v, made in zip(entry.graph.outputs, results, strict=True)}

    def step(self, x: Any, y: Any) -> float:
        """One training step on a batch; gives the loss before the update.

        x: (batch, …), several inputs as a tuple; y: the target, several as a tuple. A loss that is
        not finite leaves parameters, moments, buffers and the count of updates as they
        were. Raises ShapeError or DtypeError.
        """
        return self.loss_of(STEP, x, y)

    def gradients(self, x: Any, y: Any) -> float:
        """Loss and gradients of a batch, parameters unchanged; the gradients are then in
        `Param.grd`.
        """
        return self.loss_of(GRADIENTS, x, y)

    def forward(self, x: Any) -> Any:
        """The network's output (of several a tuple), in evaluation mode, for any number of rows.

        x: (N, …), several inputs as a tuple, taken in turns of `batch` rows: many at a time are
        faster where that is more than one. Raises ShapeError or DtypeError.
        """
        entry = self.entry(FORWARD)
        given = inputs_and_targets(entry.graph.inputs, x, ())
        with self.store.lock:
            results = call_on_rows(entry, given, self.batch)
        return results[0] if len(results) == 1 else tuple(results)

    def loss_of(self, name: str, x: Any, y: Any) -> float:
        """Call an entry on a batch and its targets; gives the loss."""
        entry = self.entry(name)
        given = inputs_and_targets(entry.graph.inputs, x, y)
        with self.store.lock:
            call_on_batch(entry, given, self.batch)
            return float(entry.output(LOSS))

    def load(
        self,
        x: Any = None,
        y: Any = None,
        *,
        evaluation: tuple[Any, Any] | None = None,
        shuffle: bool = True,
    ) -> None:
        """Keep a data set in memory for `steps`, another for `evaluate`, or both; one that is not
        given stays as it is.

        x: (N, …), y: (N, …), N at least `batch`. The order of each epoch follows from the program's
        seed. Data as many as before and in the same way of ordering are gone on with where the
        last step was; others begin at their first sample.
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
        if (x is None) != (y is None) or x is evaluation is None:
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
        or NoeiraError if the program is closed.
        """
        self.check_open()
        resume.save(self, path)

    def restore(self, path: str | os.PathLike[str]) -> None:
        """Go on from a checkpoint of this network with this optimizer, before or after `load`: with
        its seed, and at its place in data of the same length and order. Raises CheckpointError if
        the file is no such checkpoint, NoeiraError if the program is closed; then nothing is
        changed.
        """
        self.check_open()
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
        return self.loaded().steps(count)

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
        """The learning rate, a state of the program: assigning it takes effect at the next step."""
        return float(self.learning_rate())

    @lr.setter
    def lr(self, value: float) -> None:
        rate = finite_number(value)
        if rate is None or rate < 0:
            raise OptionError(f"lr must be a finite number, 0 or greater, not {value!r}")
        state = self.learning_rate()
        if not DTYPES[dtype := dtype_name(state.dtype)].fits(rate):
            raise OptionError(f"lr cannot be {value!r}, which does not fit in {dtype}")
        state[...] = rate

    def learning_rate(self) -> np.ndarray:
        """The state %lr."""
        if LEARNING_RATE not in self.own_states:
            self.entry(STEP)
        return self.own_states[LEARNING_RATE]

    @property
    def title(self) -> str:
        """What messages call the network: its type as it is written, unless that is long."""
        text = repr(type(self.module))
        return text if len(text) <= LONGEST_TITLE else f"{self.name}[…]"

    @property
    def plans(self) -> dict[str, Any]:
        """The plan (or, for the reference, the graph) of every entry."""
        return {name: entry.runs() for name, entry in self.entries.items()}

    @property
    def source(self) -> str:
        """The generated source of every unit."""
        return "\n".join(dict.fromkeys(unit.source for unit in self.units))

    def close(self) -> None:
        """Let go of the program's memory; the parameters stay with the module instance."""
        self.closed = True
        self.entries, self.declared, self.own_states, self.units = {}, {}, {}, []
        self.training = self.evaluation = None
        self.store.settle()
        self.build_entries = self.build_resident = self.gone

    def gone(self, *given: object) -> NoReturn:
        """What building gives after `close`."""
        raise NoeiraError(f"the program {self.name} is closed")

    def check_open(self) -> None:
        """Raises NoeiraError after `close`."""
        if self.closed:
            self.gone()

    def __reduce__(self) -> NoReturn:
        raise NoeiraError(
            f"the program {self.name} cannot be pickled or copied: pickle or copy program.module "
            "and compile that, or write program.save(path), to go on training elsewhere"
        )

    def __enter__(self) -> Program:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __repr__(self) -> str:
        entries = ", ".join(self.entries)
        return f"<program {self.title} on {self.target}, batch {self.batch}: {entries}>"
