"""Trainer: a network type, a data set, and the loop over epochs, stepped natively."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from typing import Any, Unpack

from noeira.errors import DataError, NoeiraError, OptionError
from noeira.nn.core.module import Module
from noeira.options import CompileOptions, counting_number, options_of, takes, training
from noeira.runtime.interrupts import Interrupts
from noeira.runtime.program import Program
from noeira.training.progress import Reporter
from noeira.training.result import Epoch, TrainResult


class Trainer:
    """Trains a network, given by type (new parameters) or by instance.

    The program is compiled at the first `fit`, when the shapes of the data are known, or by
    `restore`; it is then in `program`, and the trained instance in `net`. Options as for
    `noeira.compile`, by default loss CrossEntropy, optimizer Adam and a batch of 100. Raises
    OptionError, CompositionError or ShapeError.
    """

    __slots__ = ("__weakref__", "given", "made", "options")

    @takes(CompileOptions, training({}))
    def __init__(self, net: type[Module] | Module, **options: Unpack[CompileOptions]) -> None:
        self.given, self.options = net, training(options)
        _, checked = options_of(net, self.options, "Trainer", input_later=True)
        if checked.loss is None or checked.optimizer is None:
            raise OptionError("Trainer needs a loss and an optimizer")
        self.made: Program | None = None

    def __setattr__(self, name: str, value: Any) -> None:
        """Raises NoeiraError for a misspelt name, which would do nothing."""
        if type(self) is Trainer and name not in Trainer.__slots__:
            where = f": write trainer.program.{name}" if hasattr(Program, name) else ""
            raise NoeiraError(f"{name} of a trainer cannot be set{where}")
        super().__setattr__(name, value)

    @property
    def program(self) -> Program:
        """The compiled program. Raises DataError before the first `fit`."""
        if self.made is None:
            raise DataError("the trainer has no program yet: fit(train) compiles it")
        return self.made

    @property
    def net(self) -> Module:
        """The instance that is trained. Raises DataError before the first `fit`."""
        return self.given if isinstance(self.given, Module) else self.program.module

    def __repr__(self) -> str:
        if self.made is None:
            kind = type(self.given) if isinstance(self.given, Module) else self.given
            return f"<Trainer of {kind!r}: no data yet, fit(train) compiles it>"
        return f"<Trainer of {self.made!r}>"

    def fit(
        self,
        train: Any,
        test: Any = None,
        epochs: int = 5,
        shuffle: bool = True,
        progress: bool = True,
    ) -> TrainResult:
        """Train for `epochs` passes; a further call goes on from where the last one stopped.

        train, test: objects with `.x` (N, …) and `.y` (N, …), such as `MNIST().train`, or pairs (x,
        y). Ctrl-C ends training after the current batch, within a second, and keeps what was
        learned; while the program is built, at once. Raises NotFiniteError at a loss that is not
        finite, DataError, ShapeError or DtypeError for data that do not fit.
        """
        number = counting_number("epochs", epochs)
        try:
            data = self.prepare(train, test, shuffle).loaded()
        except KeyboardInterrupt:
            Reporter(number, 0, progress).say("stopped before the first epoch")
            return TrainResult((), interrupted=True)
        done = list[Epoch]()
        with Interrupts() as interrupts, Reporter(number, data.batches, progress) as reporter:

            def between(steps: int) -> bool:
                reporter.advance(steps)
                return interrupts.wanted

            following = self.passes(test is not None, between)
            while len(done) < number:
                reporter.begin(len(done) + 1)
                epoch = next(following, None)
                if epoch is None:
                    reporter.say(
                        f"stopped in epoch {len(done) + 1}/{number}; what was learned is kept"
                    )
                    break
                done.append(epoch)
                reporter.end(len(done), epoch)
        return TrainResult(tuple(done), interrupted=len(done) < number)

    def epochs(
        self,
        train: Any,
        test: Any = None,
        shuffle: bool = True,
        between: Callable[[int], bool] | None = None,
    ) -> Iterator[Epoch]:
        """Train without end, an epoch each time that the next one is asked for: between two of them
        a caller may change `program.lr`, save, evaluate, or stop.

        train, test, errors: as for `fit`; nothing is printed. between: called after every few
        batches, within a tenth of a second, with the steps that were done; True ends training
        there, with no record of an epoch that is not complete. The data are loaded at once.
        """
        self.prepare(train, test, shuffle)
        return self.passes(test is not None, between)

    def passes(self, tested: bool, between: Callable[[int], bool] | None) -> Iterator[Epoch]:
        """Train to the end of the loaded data and evaluate, again and again, until `between` ends
        it.
        """
        program, stopped = self.program, False
        shares = frozenset(name for name, kind in program.metrics.items() if kind.share)

        def ends(steps: int) -> bool:
            nonlocal stopped
            stopped = between is not None and between(steps)
            return stopped

        while True:
            started, data = time.perf_counter(), program.loaded()
            loss = data.steps(data.batches - data.done, ends)
            found = {}
            if tested and not stopped:
                found = program.loaded_evaluation().evaluate(ends)
            if stopped:
                return
            test_loss = found.pop("loss", None)
            yield Epoch(loss, test_loss, time.perf_counter() - started, found, shares)

    def restore(self, path: str | os.PathLike[str]) -> None:
        """Go on at the next `fit` from what `trainer.program.save(path)` wrote, here or elsewhere.

        Before the first `fit`, samples have the shapes that the type and `input` say. Raises
        CheckpointError for a file of another network or optimizer.
        """
        program = self.made or self.compiled(None)
        program.restore(path)
        self.made = program

    def prepare(self, train: Any, test: Any, shuffle: bool) -> Program:
        """The program with these data in it, compiled at the first call."""
        given = pair("train", train)
        program = self.made or self.compiled(input_shapes(given[0]))
        evaluation = None if test is None else pair("test", test)
        program.load(*given, evaluation=evaluation, shuffle=shuffle)
        # Kept only now: data that it refuses may not decide its shapes.
        self.made = program
        return program

    def compiled(self, input: Any) -> Program:
        """A program for samples of these shapes, with nothing built yet."""
        from noeira.compiler import program_of

        found = {**self.options, "input": self.options.get("input") or input}
        return program_of(self.given, *options_of(self.given, found, "Trainer"))


def pair(name: str, data: Any) -> tuple[Any, Any]:
    """(x, y) from an object that has them, or from a pair. Raises DataError."""
    if hasattr(data, "x") and hasattr(data, "y"):
        return data.x, data.y
    if isinstance(data, (tuple, list)) and len(data) == 2:
        return data[0], data[1]
    raise DataError(
        f"{name} must have .x and .y, such as MNIST().train, or be a pair (x, y), "
        f"not {type(data).__name__}"
    )


def input_shapes(x: Any) -> Any:
    """The shape of one sample of each input."""
    if isinstance(x, tuple):
        return tuple(tuple(part.shape[1:]) for part in x)
    return tuple(x.shape[1:]) if hasattr(x, "shape") else None
