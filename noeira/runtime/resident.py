"""Native stepping: batches are gathered from resident data by the program itself, in an order drawn
for each epoch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from noeira.errors import DataError, ShapeError
from noeira.ir.plan import OUTPUT, root_of
from noeira.ir.states import BAD, CURSOR, LOSS, ORDER, metric_count, metric_sum, total
from noeira.runtime.arguments import checked_samples, inputs_and_targets

if TYPE_CHECKING:
    import numpy as np

    from noeira.ir.entry import DataPass
    from noeira.runtime.entry_point import EntryPoint
    from noeira.runtime.program import Program

# Entries over resident data read the data of each input, then the order.
ORDER_INPUT = -1


class ResidentData:
    """The data sets of a program. Where it stands in them is in the program's own state `cursor`,
    the number of samples taken so far, and nowhere else.
    """

    def __init__(
        self,
        program: Program,
        x: Any,
        y: Any,
        evaluation: tuple[Any, Any] | None,
        shuffle: bool,
    ) -> None:
        self.program, self.shuffle = program, shuffle
        train = self.check(x, y)
        self.samples = len(train[0])
        if self.samples < program.batch:
            raise ShapeError(f"{self.samples} samples are fewer than one batch of {program.batch}")
        test = self.check_evaluation(evaluation)
        self.test_samples = len(test[0]) if test else 0
        built = program.build_resident(self.samples, self.test_samples)
        self.unit, self.training, self.evaluation = built
        program.connect_all(self.unit)
        self.cursor, self.bad = program.own_states[CURSOR], program.own_states[BAD]
        self.total = self.total_of(LOSS)
        self.ordered_epoch: int | None = None
        self.bind(train, test)

    def begin(self) -> None:
        """Stand at the first sample: what an earlier data set left behind does not count here."""
        self.cursor[...], self.bad[...] = 0, -1

    def check(self, x: Any, y: Any, data: str = "") -> list[np.ndarray]:
        """Inputs and targets, of one length. Raises ShapeError or DtypeError."""
        declared = self.program.inputs
        return checked_samples(declared, inputs_and_targets(declared, x, y), data)

    def check_evaluation(self, evaluation: Any) -> list[np.ndarray]:
        """The evaluation data, if there are any. Raises DataError, ShapeError or DtypeError."""
        if evaluation is None:
            return []
        if not isinstance(evaluation, (tuple, list)) or len(evaluation) != 2:
            raise DataError("evaluation must be a pair (x, y)")
        return self.check(evaluation[0], evaluation[1], "evaluation")

    def renew(self, x: Any, y: Any, evaluation: tuple[Any, Any] | None) -> None:
        """Look at the same data sets again, whose elements may have changed, and go on where the
        program stands. Raises ShapeError or DtypeError.
        """
        self.bind(self.check(x, y), self.check_evaluation(evaluation))

    def bind(self, train: list[np.ndarray], test: list[np.ndarray]) -> None:
        """Give the data to the entries."""
        import numpy as np

        for data_pass, arrays in ((self.training, train), (self.evaluation, test)):
            for index, array in enumerate(arrays):
                self.give(data_pass, index, array)
        if test:
            self.give(self.evaluation, ORDER_INPUT, np.arange(self.test_samples, dtype=np.int32))

    def points(self, data_pass: DataPass) -> list[EntryPoint]:
        """The entry points that go through a data set."""
        return [self.unit.entries[entry.name] for entry in data_pass.entries]

    def give(self, data_pass: DataPass, index: int, array: np.ndarray) -> None:
        """Let an array be the input of this number of all entries that go through a data set; all
        but the first share what that one was given.
        """
        first, *others = self.points(data_pass)
        root = first.input_roots[index]
        first.bind(root, array)
        for other in others:
            other.take_over(root, first, root)

    def draw_order(self, epoch: int) -> None:
        """Give the order of an epoch to the training entries: it is drawn where they read it."""
        import numpy as np

        if self.shuffle:
            order = self.unit.entries[ORDER]
            order.bind_inputs([np.array(self.program.seed), np.array(epoch)])
            order.run()
            for point in self.points(self.training):
                root = point.input_roots[ORDER_INPUT]
                point.take_over(root, order, root_of(OUTPUT, ORDER))
        elif self.ordered_epoch is None:
            self.give(self.training, ORDER_INPUT, np.arange(self.samples, dtype=np.int32))
        self.ordered_epoch = epoch

    def total_of(self, name: str) -> np.ndarray:
        """The state that adds up a result."""
        return self.program.own_states[total(name)]

    @property
    def epoch(self) -> int:
        """Passes over the data that are complete."""
        return int(self.cursor) // self.samples

    @property
    def done(self) -> int:
        """Steps of the present epoch that are done."""
        return self.training.done(int(self.cursor) % self.samples)

    @property
    def batches(self) -> int:
        """Steps in an epoch."""
        return self.training.calls

    def steps(self, n: int, between: Callable[[int], bool] | None = None) -> float:
        """`n` steps; gives the mean loss of the samples seen.

        between: told the number of steps after each native call; True ends it early.
        Raises NotFiniteError.
        """
        with self.program.store.lock:
            first, self.total[...] = int(self.cursor), 0.0
            while n:
                did = self.native_call(n)
                n -= did
                if between is not None and between(did):
                    break
            seen = int(self.cursor) - first
            return float(self.total) / max(seen, 1)

    def native_call(self, most: int) -> int:
        """One call of a training entry; gives the number of steps done."""
        if self.epoch != self.ordered_epoch:
            self.draw_order(self.epoch)
        entry, left = self.training.following(self.done)
        point = self.unit.entries[entry.name]
        did = point.run(min(most, left))
        if int(self.bad) >= 0:
            # The bad step changed nothing, so its batch comes next: the caller may change
            # something and go on.
            tick, self.bad[...] = int(self.bad), -1
            from noeira.runtime.not_finite import not_finite

            raise not_finite(self.program, point, tick)
        return did

    def evaluate(self, between: Callable[[int], bool] | None = None) -> dict[str, float]:
        """Means over the evaluation data: the loss, then each metric by its name.

        between: asked after each native call; True ends it early, with nothing to give.
        """
        if not self.test_samples:
            raise DataError("no evaluation data: call load(x, y, evaluation=(test_x, test_y))")
        names = [v.name for v in self.points(self.evaluation)[0].graph.outputs]
        with self.program.store.lock:
            cursor = int(self.cursor)
            try:
                self.cursor[...] = 0
                for name in names:
                    self.total_of(name)[...] = 0
                if self.stopped_evaluating(between):
                    return {}
                totals = {name: float(self.total_of(name)) for name in names}
            finally:
                self.cursor[...] = cursor
        means = {"loss": totals[LOSS] / self.test_samples}
        for index, name in enumerate(self.program.metrics):
            means[name] = totals[metric_sum(index)] / totals[metric_count(index)]
        return means

    def stopped_evaluating(self, between: Callable[[int], bool] | None) -> bool:
        """Run the evaluation over all its data; True if `between` ended it early."""
        for entry, calls in self.evaluation.turns:
            while calls:
                calls -= self.unit.entries[entry.name].run(calls)
                if between is not None and between(0):
                    return True
        return False
