"""Training data that come batch by batch, from any iterable."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from noeira.errors import (
    DataError,
    DtypeError,
    NoeiraError,
    NotFiniteError,
    OptionError,
    ShapeError,
)
from noeira.ir.arrays import is_float, shortest
from noeira.ir.states import GRAD_NORM, RATE, TICK
from noeira.runtime.arguments import checked_samples, inputs_and_targets, place, tupled
from noeira.runtime.entries import EPOCHS_UNKNOWN
from noeira.runtime.entry_point import EntryPoint
from noeira.runtime.not_finite import first_not_finite, not_finite
from noeira.runtime.program import Program
from noeira.runtime.resident import TrainingData
from noeira.training.feed import Between, Piece, as_pair, described

# What gives an iterable of the batches of an epoch, told its number from 0.
Source = Callable[[int], Any]
TAKEN = (
    "train must have .x and .y, such as MNIST().train, or be a pair (x, y), an iterable of such "
    "pairs, a batch each, or a function that gives one for the number of an epoch"
)


def source_of(train: Any, epochs: int | None) -> Source:
    """The batches of an epoch, by its number.

    epochs: how many there will be, None if nobody knows. Raises DataError for what gives no
    batches, or gives them only once and they are wanted more often.
    """
    if callable(train) and not hasattr(train, "__iter__"):
        return train
    array = hasattr(train, "__dlpack__") or hasattr(train, "__array__")
    if array or isinstance(train, (str, bytes, dict)) or not hasattr(train, "__iter__"):
        raise DataError(f"{TAKEN}, not {described('train', train)}")
    if isinstance(train, tuple) and train and all(hasattr(a, "shape") for a in train):
        raise DataError(f"{TAKEN}, not {described('train', train)}")
    if isinstance(train, Iterator) and epochs is not None and epochs > 1:
        raise DataError(
            f"train is a {type(train).__name__}, which gives its batches once, and there are "
            f"{epochs} epochs: write epochs=1, give a list, or a function that gives the batches "
            "of an epoch by its number"
        )
    return lambda epoch: train


class Batches:
    """The batches of one epoch, each looked at before it is asked for: whether one is the last is
    known when it comes.

    number: of the epoch, from 0. Raises DataError if the source fails or gives what is no batch.
    """

    def __init__(self, source: Source, number: int) -> None:
        self.source, self.number, self.given = source, number, 0
        try:
            found = source(number)
            self.length = len(found) if hasattr(found, "__len__") else None
            self.iterator = iter(found)
        except Exception as error:
            raise self.failed(error) from error
        self.next = self.read()

    def read(self) -> tuple[Any, Any] | None:
        """The next pair, None after the last."""
        try:
            found = next(self.iterator, self)
        except Exception as error:
            raise self.failed(error) from error
        if found is self:
            return None
        batch = as_pair(found)
        if batch is None:
            raise DataError(
                f"{self.place} of train must be a pair (x, y), not {described('batch', found)}"
            )
        return batch

    def failed(self, error: Exception) -> NoeiraError:
        """The error for a source that raised one."""
        return DataError(
            f"train failed at {self.place}: {type(error).__name__}: {error}; what was learned "
            "before is kept"
        )

    @property
    def place(self) -> str:
        """The batch that comes next, as messages call it."""
        return f"batch {self.given} of epoch {self.number + 1}"

    def take(self) -> tuple[Any, Any] | None:
        """The next pair, None after the last."""
        found = self.next
        if found is not None:
            self.given += 1
            self.next = self.read()
        return found


class LastBatch(TrainingData):
    """A step on fewer rows than a batch, built for just so many: a data set of one batch."""

    def begin(self, shuffle: bool) -> None:
        """Take the rows as they are. Where the program stands in other data does not matter."""
        self.shuffle, self.ordered_epoch = False, None
        self.bad[...] = -1

    def step(self, arrays: list[Any]) -> float:
        """One step on the rows; gives its loss. Raises NotFiniteError."""
        with self.program.store.lock:
            cursor = int(self.cursor)
            try:
                self.bind(arrays)
                self.begin(False)
                self.cursor[...] = 0
                return self.steps(1)
            finally:
                self.cursor[...] = cursor


class StreamFeed:
    """Batches from a source, a step each; a smaller last one of an epoch is a step, too."""

    def __init__(self, program: Program, opened: Batches) -> None:
        self.program, self.opened = program, opened
        self.fresh = True
        self.counted = opened.length
        self.last: LastBatch | None = None
        self.total, self.samples, self.norm, self.lr = 0.0, 0, 0.0, program.lr
        # Where the results of the last step are.
        self.results = self.step = program.entry("step")
        self.outputs = {value.name for value in self.step.graph.outputs}
        if self.counted:
            program.epoch_steps = self.counted
        elif program.blocked == EPOCHS_UNKNOWN:
            raise OptionError(
                "the schedule counts epochs, and nobody knows how many batches train gives in one: "
                "write trainer.program.epoch_steps = …, give what has a len, such as a list or a "
                "DataLoader, or let the schedule count steps"
            )

    @property
    def batches(self) -> int | None:
        """As many as the iterable says, or the epoch before had."""
        return self.counted

    def seek(self, epoch: int, done: int) -> None:
        """As Feed has it. Raises DataError if the epoch has fewer batches."""
        if self.opened.number != epoch:
            self.opened = Batches(self.opened.source, epoch)
        for _ in range(done):
            if self.opened.take() is None:
                raise DataError(
                    f"train gives {self.opened.given} batches in epoch {epoch + 1}, and training "
                    f"stopped after {done}: give it the data that it was trained on"
                )
        # All may be done, and the evaluation at the end of the epoch be missing.
        self.fresh = not done or self.opened.next is not None

    def advance(self, most: int | None, between: Between) -> Piece:
        """As Feed has it. Raises DataError, ShapeError or DtypeError for a batch that does not fit,
        NotFiniteError.
        """
        self.total, self.samples, self.norm, steps = 0.0, 0, 0.0, 0
        if not self.fresh:
            self.opened, self.fresh = Batches(self.opened.source, self.opened.number + 1), True
        if self.opened.next is None and not self.opened.given:
            raise DataError(f"train gives no batches in epoch {self.opened.number + 1}")
        while self.opened.next is not None and steps != most:
            self.train_on_next()
            steps += 1
            if between(1):
                break
        if self.opened.next is None:
            self.counted, self.fresh = self.opened.given, False
        return replace(self.seen(), ended=self.opened.next is None)

    def seen(self) -> Piece:
        """As Feed has it."""
        norm = self.norm if GRAD_NORM in self.outputs else None
        return Piece(self.total, self.samples, self.lr, norm)

    def train_on_next(self) -> None:
        """One step."""
        where, batch = self.opened.place, self.opened.take()
        assert batch is not None
        x, y = batch
        first = tupled(x)[0]
        rows = len(first) if hasattr(first, "__len__") else self.program.batch
        try:
            if rows != self.program.batch:
                loss = self.smaller(rows, x, y)
            else:
                loss, self.results = self.program.step(x, y), self.step
        except (DataError, DtypeError, ShapeError) as error:
            raise type(error)(f"{where} of train: {error}") from None
        except NotFiniteError as error:
            raise bad_element(self.program, where, x, y) or error from None
        if not math.isfinite(loss):
            raise bad_element(self.program, where, x, y) or bad_node(self.program)
        self.total += loss * rows
        self.samples += rows
        if GRAD_NORM in self.outputs:
            self.norm += float(self.results.output(GRAD_NORM))
        told = RATE in self.outputs
        self.lr = shortest(self.results.output(RATE)) if told else self.program.lr

    def smaller(self, rows: int, x: Any, y: Any) -> float:
        """A step on the last batch, which has fewer rows. Raises ShapeError for any other."""
        batch = self.program.batch
        if rows > batch:
            raise ShapeError(
                f"it has {rows} rows, and this trainer takes {batch} at a time: "
                f"Trainer(…, batch={rows})"
            )
        if self.opened.next is not None:
            raise ShapeError(
                f"it has {rows} rows, not {batch}, and is not the last of its epoch, the only one "
                f"that may be smaller: Trainer(…, batch={rows}), if all have so many"
            )
        inputs = self.program.inputs
        arrays = checked_samples(inputs, inputs_and_targets(inputs, x, y), kept=True)
        if self.last is None or self.last.samples != rows:
            built = self.program.prepare().build_resident({"training": rows})
            self.last = LastBatch(self.program, *built["training"])
        loss = self.last.step(arrays)
        self.results = self.last.points[-1]
        return loss


def bad_element(program: Program, where: str, x: Any, y: Any) -> NotFiniteError | None:
    """The error for a batch whose loss is not finite because of an element of its arrays, the first
    that is not; None if all are.
    """
    import numpy as np

    inputs = program.entry("step").graph.inputs
    for declared, given in zip(inputs, inputs_and_targets(inputs, x, y), strict=True):
        array = np.asarray(given)
        index = first_not_finite(array) if is_float(array) else None
        if index is not None:
            name, at = declared.value.name, place(index)
            return NotFiniteError(
                f"the loss of step {program.updates + 1} is not finite: {name}[{at}] of "
                f"{where} is {array[tuple(index)]}; parameters, moments and counters are as they "
                "were before it"
            )
    return None


def bad_node(program: Program) -> NotFiniteError:
    """The error for the last step, of a batch whose elements are finite."""
    entry: EntryPoint = program.entry("step")
    tick = program.store.arrays.get(TICK)
    return not_finite(program, entry, 0 if tick is None else int(tick) - 1)
