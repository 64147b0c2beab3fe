"""Native stepping: batches are gathered from resident data by the program itself, in an order drawn
for each epoch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from noeira.errors import DataError, ShapeError
from noeira.ir.arrays import shortest
from noeira.ir.plan import OUTPUT, root_of
from noeira.ir.states import (
    BAD,
    CURSOR,
    GATHERED_ROWS,
    GRAD_NORM,
    LOSS,
    ORDER,
    RATE,
    metric_count,
    metric_sum,
    total,
)
from noeira.runtime.arguments import checked_samples, inputs_and_targets

if TYPE_CHECKING:
    import numpy as np

    from noeira.errors import NotFiniteError
    from noeira.ir.entry import DataPass, Purpose
    from noeira.runtime.built_unit import BuiltUnit
    from noeira.runtime.entry_point import EntryPoint
    from noeira.runtime.program import Program

# The entries of a data set, and how it is gone through.
BuiltData: TypeAlias = "tuple[BuiltUnit, DataPass]"

# Entries over resident data read the data of each input, then the order.
ORDER_INPUT = -1


class ResidentData:
    """What goes through a data set of so many samples: entries, built for their number, and the
    arrays that they were given last.

    Where they stand is in the program's own state `cursor`, the number of samples taken so far, and
    nowhere else.
    """

    def __init__(self, program: Program, unit: BuiltUnit, once: DataPass) -> None:
        self.program, self.unit, self.once, self.samples = program, unit, once, once.samples
        program.connect_all(self.unit)
        self.cursor = program.own_states[CURSOR]
        self.points = [self.unit.entries[entry.name] for entry in self.once.entries]

    def bind(self, arrays: Sequence[np.ndarray]) -> None:
        """Give the data to the entries."""
        for index, array in enumerate(arrays):
            self.give(index, array)

    def give(self, index: int, array: np.ndarray) -> None:
        """Let an array be the input of this number of all entries; all but the first share what
        that one was given.
        """
        first, *others = self.points
        root = first.input_roots[index]
        first.bind(root, array)
        for other in others:
            other.take_over(root, first, root)

    def total_of(self, name: str) -> np.ndarray:
        """The state that adds up a result."""
        return self.program.own_states[total(name)]


class TrainingData(ResidentData):
    """The data set that `steps` takes its batches from."""

    def __init__(self, program: Program, unit: BuiltUnit, once: DataPass) -> None:
        super().__init__(program, unit, once)
        self.bad = program.own_states[BAD]
        names = [v.name for v in self.points[-1].graph.outputs if v.name in (LOSS, GRAD_NORM)]
        self.totals = {name: self.total_of(name) for name in names}
        self.shuffle = True
        self.ordered_epoch: int | None = None
        # What the last steps told, and the entry that completed the last one.
        self.told: dict[str, float] = {}
        self.latest: EntryPoint | None = None

    def begin(self, shuffle: bool) -> None:
        """Go on where the program stands, if it stands in a data set of this length and order; else
        stand at the first sample.
        """
        self.shuffle, self.ordered_epoch = shuffle, None
        self.bad[...] = -1
        self.program.epoch_steps = self.batches
        if self.program.stands_in != (self.samples, shuffle):
            self.program.stands_in = self.samples, shuffle
            self.cursor[...] = 0

    def draw_order(self, epoch: int) -> None:
        """Give the order of an epoch to the entries: it is drawn where they read it."""
        import numpy as np

        if self.shuffle:
            order = self.unit.entries[ORDER]
            order.bind_inputs([np.array(self.program.seed), np.array(epoch)])
            order.run()
            for point in self.points:
                root = point.input_roots[ORDER_INPUT]
                point.take_over(root, order, root_of(OUTPUT, ORDER))
        elif self.ordered_epoch is None:
            self.give(ORDER_INPUT, np.arange(self.samples, dtype=np.int32))
        self.ordered_epoch = epoch

    @property
    def epoch(self) -> int:
        """Passes over the data that are complete."""
        return int(self.cursor) // self.samples

    @property
    def done(self) -> int:
        """Steps of the present epoch that are done."""
        return self.once.done(int(self.cursor) % self.samples)

    @property
    def batches(self) -> int:
        """Steps in an epoch."""
        return self.once.steps

    def steps(self, n: int, between: Callable[[int], bool] | None = None) -> float:
        """`n` steps; gives the mean loss of the samples seen.

        between: told the number of steps after each native call that completes some; True ends it
        early. Raises NotFiniteError.
        """
        with self.program.store.lock:
            first, done = int(self.cursor), 0
            for total_of in self.totals.values():
                total_of[...] = 0.0
            try:
                while done < n:
                    if did := self.native_call(n - done):
                        done += did
                        if between is not None and between(did):
                            break
            finally:
                self.leave_batch()
            seen = int(self.cursor) - first
            return self.tell(done, max(seen, 1))

    def tell(self, steps: int, samples: int) -> float:
        """Keep what so many steps over so many samples told; gives their mean loss."""
        loss = float(self.totals[LOSS]) / samples
        self.told = {"loss": loss}
        if GRAD_NORM in self.totals:
            self.told[GRAD_NORM] = float(self.totals[GRAD_NORM]) / max(steps, 1)
        self.told |= {"lr": self.rate, "step": self.program.updates}
        return loss

    @property
    def rate(self) -> float:
        """The learning rate of the last step: by a schedule, if there is one."""
        # The last entry completes a step, and so has a rate of its own if there is a schedule.
        rates = [v.name for v in self.points[-1].graph.outputs if v.name == RATE]
        if not rates or self.latest is None:
            return self.program.lr
        return shortest(self.latest.output(RATE))

    def native_call(self, most: int) -> int:
        """One call of an entry; gives the number of steps that it completed, `most` at most."""
        if self.epoch != self.ordered_epoch:
            self.draw_order(self.epoch)
        following = self.once.following(int(self.cursor) % self.samples)
        point = self.unit.entries[following.entry.name]
        self.program.store.changes += 1
        did = point.run(min(most, following.calls) if following.completes else following.calls)
        if int(self.bad) >= 0:
            raise self.not_finite(point)
        if not following.completes:
            return 0
        self.latest = point
        return did

    def not_finite(self, point: EntryPoint) -> NotFiniteError:
        """The error for a step that was not ok. It has changed nothing, so its batch, from the
        beginning, comes next: the caller may change something and go on.
        """
        from noeira.runtime.not_finite import not_finite

        tick, self.bad[...] = int(self.bad), -1
        error = not_finite(self.program, point, tick)
        return error

    def leave_batch(self) -> None:
        """Of a batch that only some parts have been taken of, let the whole come next."""
        if GATHERED_ROWS in self.program.own_states:
            gathered = self.program.own_states[GATHERED_ROWS]
            self.cursor[...] = int(self.cursor) - int(gathered)
            gathered[...] = 0


class EvaluationData(ResidentData):
    """The data set that `evaluate` goes over, in its own order."""

    def bind(self, arrays: Sequence[np.ndarray]) -> None:
        import numpy as np

        super().bind(arrays)
        self.give(ORDER_INPUT, np.arange(self.samples, dtype=np.int32))

    def evaluate(self, between: Callable[[int], bool] | None = None) -> dict[str, float]:
        """Means over the data: the loss, then by its name what each metric makes of its own, which
        is nan if it counted nothing.

        between: asked after each native call; True ends it early, with nothing to give.
        """
        names = [v.name for v in self.points[0].graph.outputs]
        with self.program.store.lock:
            # Where training stands is to be the same afterwards.
            cursor = int(self.cursor)
            try:
                self.cursor[...] = 0
                for name in names:
                    self.total_of(name)[...] = 0
                if self.stopped(between):
                    return {}
                totals = {name: float(self.total_of(name)) for name in names}
            finally:
                self.cursor[...] = cursor
        means = {"loss": totals[LOSS] / self.samples}
        for index, (name, kind) in enumerate(self.program.metrics.items()):
            count = totals[metric_count(index)]
            mean = totals[metric_sum(index)] / count if count else math.nan
            means[name] = float(kind.value(mean))
        return means

    def stopped(self, between: Callable[[int], bool] | None) -> bool:
        """Run the evaluation over all its data; True if `between` ended it early."""
        taken = 0
        while taken < self.samples:
            following = self.once.following(taken)
            taken += following.entry.rows * self.unit.entries[following.entry.name].run(
                following.calls
            )
            if between is not None and between(0):
                return True
        return False


def training_samples(program: Program, x: Any, y: Any) -> list[np.ndarray]:
    """Inputs and targets to train on, at least a batch. Raises ShapeError or DtypeError."""
    given = inputs_and_targets(program.inputs, x, y)
    arrays = checked_samples(program.inputs, given, kept=True)
    if len(arrays[0]) < program.batch:
        raise ShapeError(f"{len(arrays[0])} samples are fewer than one batch of {program.batch}")
    return arrays


def evaluation_samples(program: Program, given: Any) -> list[np.ndarray]:
    """Inputs and targets to evaluate. Raises DataError, ShapeError or DtypeError."""
    if not isinstance(given, (tuple, list)) or len(given) != 2:
        raise DataError("evaluation must be a pair (x, y)")
    arrays = inputs_and_targets(program.inputs, given[0], given[1])
    return checked_samples(program.inputs, arrays, "evaluation", kept=True)


def built(
    program: Program, train: Sequence[np.ndarray], test: Sequence[np.ndarray]
) -> tuple[TrainingData | None, EvaluationData | None]:
    """What goes through as many samples, built unless the present ones do; where there are no
    samples, the present one.
    """
    training, evaluation = program.training, program.evaluation
    needed: dict[Purpose, int] = {}
    if train and (training is None or training.samples != len(train[0])):
        needed["training"] = len(train[0])
    if test and (evaluation is None or evaluation.samples != len(test[0])):
        needed["evaluation"] = len(test[0])
    made = program.prepare().build_resident(needed) if needed else {}
    if "training" in made:
        training = TrainingData(program, *made["training"])
    if "evaluation" in made:
        evaluation = EvaluationData(program, *made["evaluation"])
    return training, evaluation
