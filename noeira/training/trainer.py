"""Trainer: a network type, a data set, and the loop over epochs, stepped natively."""

from __future__ import annotations

import time
from typing import Any, Unpack

from noeira.errors import DataError, OptionError
from noeira.nn.core.module import Module
from noeira.options import CompileOptions, counting_number, options_of, takes, training
from noeira.runtime.interrupts import Interrupts
from noeira.runtime.program import Program
from noeira.training.progress import Reporter
from noeira.training.result import Epoch, TrainResult


class Trainer:
    """Trains a network, given by type (new parameters) or by instance.

    The program is compiled at the first `fit`, when the shapes of the data are known; it is then in
    `program`, and the trained instance in `net`. Options as for `noeira.compile`, by default loss
    CrossEntropy, optimizer Adam and a batch of 100. Raises OptionError, CompositionError or
    ShapeError.
    """

    @takes(CompileOptions, training({}))
    def __init__(self, net: type[Module] | Module, **options: Unpack[CompileOptions]) -> None:
        self.given, self.options = net, training(options)
        _, checked = options_of(net, self.options, "Trainer", input_later=True)
        if checked.loss is None or checked.optimizer is None:
            raise OptionError("Trainer needs a loss and an optimizer")
        self.made: Program | None = None
        self.loaded: tuple[Any, ...] = ()

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
        epochs = counting_number("epochs", epochs)
        given = pair("train", train), None if test is None else pair("test", test)
        try:
            program = self.prepare(*given, shuffle)
        except KeyboardInterrupt:
            Reporter(epochs, 0, progress).say("stopped before the first epoch")
            return TrainResult((), interrupted=True)
        done = list[Epoch]()
        data = program.loaded()
        with Interrupts() as interrupts, Reporter(epochs, data.batches, progress) as reporter:
            for number in range(1, epochs + 1):
                reporter.begin(number)
                epoch = self.one_epoch(program, interrupts, reporter, test is not None)
                if epoch is None:
                    reporter.say(f"stopped in epoch {number}/{epochs}; what was learned is kept")
                    return TrainResult(tuple(done), interrupted=True)
                done.append(epoch)
                reporter.end(number, epoch)
        return TrainResult(tuple(done))

    def prepare(
        self, train: tuple[Any, Any], test: tuple[Any, Any] | None, shuffle: bool
    ) -> Program:
        """The program with these data in it, compiled at the first call."""
        given = (*train, *(test or ()), shuffle)
        program = self.made or self.compiled(input_shapes(train[0]))
        if list(map(id, given)) == list(map(id, self.loaded)):
            program.loaded().renew(*train, test)
        else:
            program.load(*train, evaluation=test, shuffle=shuffle)
            # Kept alive, so that no other array can get the identity of one of these. The program
            # is kept only now: data that it refuses may not decide its shapes.
            self.made, self.loaded = program, given
        return program

    def compiled(self, input: Any) -> Program:
        """A program for samples of these shapes, with nothing built yet."""
        from noeira.compiler import program_of

        found = {**self.options, "input": self.options.get("input") or input}
        return program_of(self.given, *options_of(self.given, found, "Trainer"))

    def one_epoch(
        self, program: Program, interrupts: Interrupts, reporter: Reporter, tested: bool
    ) -> Epoch | None:
        """Train to the end of the data and evaluate; None if Ctrl-C came in between."""
        started = time.perf_counter()
        data = program.loaded()
        left = data.batches - data.done

        def between(steps: int) -> bool:
            reporter.advance(steps)
            return interrupts.wanted

        loss = data.steps(left, between)
        if interrupts.wanted:
            return None
        found = data.evaluate(between) if tested else {}
        if tested and not found:
            return None
        seconds = time.perf_counter() - started
        test_loss = found.pop("loss", None)
        return Epoch(loss, test_loss, seconds, found)


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
