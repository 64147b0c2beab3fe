"""Native stepping: batches are gathered from resident data by the program itself, in an order drawn
for each epoch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from noeira.errors import DataError, ShapeError
from noeira.ir.plan import INPUT, OUTPUT
from noeira.ir.states import BAD, CURSOR, LOSS, ORDER, total
from noeira.runtime.arguments import checked_samples, inputs_and_target

if TYPE_CHECKING:
    import numpy as np

    from noeira.runtime.program import Program


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
        self.unit = program.build_resident(self.samples, self.test_samples)
        program.connect_all(self.unit)
        self.cursor, self.bad = program.own_states[CURSOR], program.own_states[BAD]
        self.total = program.own_states[total(LOSS)]
        self.ordered_epoch: int | None = None
        self.bind(train, test)

    def begin(self) -> None:
        """Stand at the first sample: what an earlier data set left behind does not count here."""
        self.cursor[...], self.bad[...] = 0, -1

    def check(self, x: Any, y: Any, data: str = "") -> list[np.ndarray]:
        """Inputs and targets, of one length. Raises ShapeError or DtypeError."""
        return checked_samples(self.program.inputs, inputs_and_target(x, y), data)

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

        for name, entry in self.unit.entries.items():
            if name == ORDER:
                continue
            arrays = test if name.startswith("evaluate") else train
            roots = [f"{INPUT} {name}" for name in entry.inputs if name.startswith("data.")]
            for root, array in zip(roots, arrays, strict=True):
                self.give(name, root, array)
            if name.startswith("evaluate"):
                order = np.arange(self.test_samples, dtype=np.int32)
                self.give(name, f"{INPUT} {ORDER}", order)

    def give(self, name: str, root: str, array: np.ndarray) -> None:
        """Give an array to an entry; the entry of the last, smaller batch shares what the one of
        whole batches was given before.
        """
        entries = self.unit.entries
        whole = entries.get(name.removesuffix(".last"))
        if whole is None or whole is entries[name]:
            entries[name].bind(root, array)
        else:
            entries[name].take_over(root, whole, root)

    def draw_order(self, epoch: int) -> None:
        """Give the order of an epoch to the training entries: it is drawn where they read it."""
        import numpy as np

        entries, root = self.unit.entries, f"{INPUT} {ORDER}"
        if self.shuffle:
            order = entries[ORDER]
            order.bind_inputs([np.array(self.program.seed), np.array(epoch)])
            order.run()
            for name in ("fit", "fit.last"):
                if name in entries:
                    entries[name].take_over(root, order, f"{OUTPUT} {ORDER}")
        elif self.ordered_epoch is None:
            numbers = np.arange(self.samples, dtype=np.int32)
            for name in ("fit", "fit.last"):
                if name in entries:
                    self.give(name, root, numbers)
        self.ordered_epoch = epoch

    def state(self, name: str) -> Any:
        """A state of the program."""
        return self.program.own_states[name]

    @property
    def epoch(self) -> int:
        """Passes over the data that are complete."""
        return int(self.cursor) // self.samples

    @property
    def done(self) -> int:
        """Steps of the present epoch that are done."""
        return int(self.cursor) % self.samples // self.program.batch

    @property
    def batches(self) -> int:
        """Steps in an epoch."""
        return -(-self.samples // self.program.batch)

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
        epoch, taken = divmod(int(self.cursor), self.samples)
        if epoch != self.ordered_epoch:
            self.draw_order(epoch)
        full = self.samples // self.program.batch - taken // self.program.batch
        if full > 0:
            entry = self.unit.entries["fit"]
            count = min(most, full)
        else:
            entry, count = self.unit.entries["fit.last"], 1
        did = entry.run(count)
        if int(self.bad) >= 0:
            # The bad step changed nothing, so its batch comes next: the caller may change
            # something and go on.
            self.bad[...] = -1
            from noeira.runtime.not_finite import not_finite

            raise not_finite(self.program, entry)
        return did

    def evaluate(self, between: Callable[[int], bool] | None = None) -> dict[str, float]:
        """Means over the evaluation data: the loss, then each metric by its name.

        between: asked after each native call; True ends it early, with nothing to give.
        """
        if not self.test_samples:
            raise DataError("no evaluation data: call load(x, y, evaluation=(test_x, test_y))")
        names = [total(v.name) for v in self.unit.entries["evaluate"].graph.outputs]
        with self.program.store.lock:
            cursor = int(self.cursor)
            try:
                self.cursor[...] = 0
                for name in names:
                    self.state(name)[...] = 0
                if self.stopped_evaluating(between):
                    return {}
                totals = [float(self.state(name)) for name in names]
            finally:
                self.cursor[...] = cursor
        means = {"loss": totals[0] / self.test_samples}
        metrics = zip(self.program.metrics, totals[1::2], totals[2::2], strict=True)
        return means | {name: added / count for name, added, count in metrics}

    def stopped_evaluating(self, between: Callable[[int], bool] | None) -> bool:
        """Run the evaluation over all its data; True if `between` ended it early."""
        full, rest = divmod(self.test_samples, min(self.program.batch, self.test_samples))
        calls = [("evaluate", full), *([("evaluate.last", 1)] if rest else [])]
        for name, steps in calls:
            while steps:
                steps -= self.unit.entries[name].run(steps)
                if between is not None and between(0):
                    return True
        return False
