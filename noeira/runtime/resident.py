"""Native stepping: batches are gathered from resident data by the program itself, in an order drawn
for each epoch.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from noeira.errors import ShapeError
from noeira.ir.random import ORDER_STREAM, permutation
from noeira.runtime.arguments import checked_rows
from noeira.runtime.diagnose import not_finite

if TYPE_CHECKING:
    import numpy as np

    from noeira.runtime.entry_point import EntryPoint
    from noeira.runtime.program import Program

# A native call lasts about this long at most, so that Ctrl-C and progress need no threads.
CALL_SECONDS = 0.05


class ResidentData:
    """The data sets of a program and where it stands in them."""

    def __init__(
        self,
        program: Program,
        x: Any,
        y: Any,
        evaluation: tuple[Any, Any] | None,
        shuffle: bool,
    ) -> None:
        self.program, self.shuffle = program, shuffle
        self.train = self.check(x, y)
        self.samples = len(self.train[0])
        if self.samples < program.batch:
            raise ShapeError(f"{self.samples} samples are fewer than one batch of {program.batch}")
        self.test = self.check(*evaluation) if evaluation is not None else []
        self.test_samples = len(self.test[0]) if self.test else 0
        unit = program.build_resident(self.samples, self.test_samples)
        program.add(unit)
        # What an earlier data set left behind does not count for this one.
        self.state("cursor")[...], self.state("bad")[...] = 0, -1
        self.epoch = self.done = 0
        self.seconds_a_step = CALL_SECONDS
        for name, entry in unit.entries.items():
            self.give(entry, self.test if name.startswith("evaluate") else self.train)
        self.order = self.next_order()

    def check(self, x: Any, y: Any) -> list[np.ndarray]:
        """Inputs and targets, of one length. Raises ShapeError or DtypeError."""
        given = (*(x if isinstance(x, tuple) else (x,)), y)
        declared = self.program.inputs
        if len(given) != len(declared):
            raise ShapeError(
                f"{self.program.name} takes {len(declared) - 1} inputs, got {len(given) - 1}"
            )
        arrays = [checked_rows(d, a) for d, a in zip(declared, given, strict=True)]
        for d, array in zip(declared, arrays, strict=True):
            if len(array) != len(arrays[0]):
                raise ShapeError(
                    f"{d.value.name} has {len(array)} rows, the first input {len(arrays[0])}"
                )
        return arrays

    def give(self, entry: EntryPoint, arrays: list[np.ndarray]) -> None:
        """Bind a data set to an entry."""
        import numpy as np

        names = [name for name in entry.inputs if name.startswith("data.")]
        for name, array in zip(names, arrays, strict=True):
            entry.bind(f"input {name}", array)
        entry.bind("input order", np.arange(len(arrays[0]), dtype=np.int32))

    def next_order(self) -> np.ndarray:
        """The order of the epoch that begins, bound to the training entries."""
        import numpy as np

        if self.shuffle:
            seed, count = self.program.seed, self.samples
            order = permutation(seed, ORDER_STREAM, count, tick=self.epoch).astype(np.int32)
        else:
            order = np.arange(self.samples, dtype=np.int32)
        for name in ("fit", "fit.last"):
            if name in self.program.entries:
                self.program.entries[name].bind("input order", order)
        return order

    @property
    def batches(self) -> int:
        """Steps in an epoch."""
        return -(-self.samples // self.program.batch)

    def state(self, name: str) -> Any:
        """A state of the program."""
        return self.program.own_states[name]

    def steps(self, n: int, between: Callable[[int], bool] | None = None) -> float:
        """`n` steps; gives the mean loss of the samples seen.

        between: told the number of steps after each native call; True ends it early.
        """
        seen, self.state("total.loss")[...] = 0, 0.0
        with self.program.store.lock:
            while n:
                did, rows = self.native_call(n)
                n, seen = n - did, seen + rows
                if between is not None and between(did):
                    break
        return float(self.state("total.loss")) / max(seen, 1)

    def native_call(self, most: int) -> tuple[int, int]:
        """One call of a training entry: steps done, and samples seen."""
        batch = self.program.batch
        full = self.samples // batch - self.done
        if full > 0:
            entry, rows = self.program.entries["fit"], batch
            count = min(most, full, max(1, int(CALL_SECONDS / self.seconds_a_step)))
        else:
            entry, rows, count = self.program.entries["fit.last"], self.samples % batch, 1
        started = time.perf_counter()
        did = entry.run(count)
        self.seconds_a_step = max((time.perf_counter() - started) / did, 1e-7)
        if self.state("bad") >= 0:
            # The step changed nothing, so the same batch comes next: the caller may change
            # something and go on.
            self.state("bad")[...] = -1
            raise not_finite(self.program, entry)
        self.done += did
        if self.done == self.batches:
            self.done, self.epoch = 0, self.epoch + 1
            self.order = self.next_order()
        return did, did * rows

    def evaluate(self) -> dict[str, float]:
        """Means over the evaluation data."""
        if not self.test:
            raise ShapeError("no evaluation data: call load(x, y, evaluation=(test_x, test_y))")
        program = self.program
        totals = [n for n in program.entries["evaluate"].state_types() if n.startswith("total.")]
        with program.store.lock:
            cursor = int(self.state("cursor"))
            for name in totals:
                self.state(name)[...] = 0
            self.state("cursor")[...] = 0
            full, rest = divmod(self.test_samples, min(program.batch, self.test_samples))
            self.in_short_calls(program.entries["evaluate"], full)
            if rest:
                program.entries["evaluate.last"].run()
            self.state("cursor")[...] = cursor
        found = {name.removeprefix("total."): float(self.state(name)) for name in totals}
        counted = {"loss": found.pop("loss") / self.test_samples} if "loss" in found else {}
        if "correct" in found:
            counted["accuracy"] = found["correct"] / found["count"]
        return counted

    def in_short_calls(self, entry: EntryPoint, steps: int) -> None:
        """Run an entry often, no native call lasting long."""
        done = 0
        while done < steps:
            done += entry.run(min(steps - done, max(1, int(CALL_SECONDS / self.seconds_a_step))))
