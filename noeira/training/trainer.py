"""Trainer: a network type, a data set, and the loop over epochs, stepped natively."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Unpack

from noeira.errors import CompositionError, DataError, NoeiraError, OptionError
from noeira.habits import refuse_attribute
from noeira.nn.core.module import Module
from noeira.options import CompileOptions, options_of, takes, training
from noeira.runtime.program import Program
from noeira.runtime.resident import EvaluationData, evaluation_samples
from noeira.training.averages import averages
from noeira.training.confusion import ConfusionMatrix, confusion_of
from noeira.training.feed import ResidentFeed, as_pair, check_shapes, input_shapes, pair
from noeira.training.fitting import Fitting
from noeira.training.folder import Folder
from noeira.training.history import History
from noeira.training.loop import Loop
from noeira.training.progress import Reporter, building
from noeira.training.result import Epoch, TrainResult
from noeira.training.settings import DEFAULTS, FitOptions, settings_of
from noeira.training.stream import Batches, StreamFeed, source_of

if TYPE_CHECKING:
    from noeira.report.explain import Explanation


class Trainer:
    """Trains a network, given by type (new parameters) or by instance.

    The program is compiled at the first `fit`, when the shapes of the data are known, or when it is
    first asked for: for the shapes that the type and `input` say. It is in `program`, and the
    trained instance in `net`. Options as for `noeira.compile`, by default loss CrossEntropy,
    optimizer Adam and a batch of 100. Raises OptionError, CompositionError or ShapeError.
    """

    __slots__ = ("__weakref__", "given", "made", "options", "scored")

    @takes(CompileOptions, training({}))
    def __init__(self, net: type[Module] | Module, **options: Unpack[CompileOptions]) -> None:
        self.given, self.options = net, training(options)
        _, checked = options_of(net, self.options, "Trainer", input_later=True)
        if checked.loss is None or checked.optimizer is None:
            raise OptionError("Trainer needs a loss and an optimizer")
        self.made: Program | None = None
        self.scored: EvaluationData | None = None

    def __setattr__(self, name: str, value: Any) -> None:
        """Raises NoeiraError for a misspelt name, which would do nothing."""
        if type(self) is Trainer and name not in Trainer.__slots__:
            where = f": write trainer.program.{name}" if hasattr(Program, name) else ""
            raise NoeiraError(f"{name} of a trainer cannot be set{where}")
        super().__setattr__(name, value)

    # Type checkers know the attributes that a trainer has, and no others.
    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Raises AttributeError that says what to write instead."""
            refuse_attribute(self, "trainer", name)

    @property
    def program(self) -> Program:
        """The compiled program; before the first `fit`, for samples of the shapes that the type and
        `input` say. Raises DataError if they leave an axis open.
        """
        self.made = self.made or self.without_data()
        return self.made

    @property
    def net(self) -> Module:
        """The instance that is trained. Raises DataError as `program`."""
        return self.given if isinstance(self.given, Module) else self.program.module

    def __repr__(self) -> str:
        if self.made is None:
            kind = type(self.given) if isinstance(self.given, Module) else self.given
            return f"<Trainer of {kind!r}: no data yet, fit(train) compiles it>"
        return f"<Trainer of {self.made!r}>"

    @takes(FitOptions, DEFAULTS)
    def fit(
        self,
        train: Any,
        test: Any = None,
        epochs: int = 5,
        shuffle: bool = True,
        progress: bool = True,
        **options: Unpack[FitOptions],
    ) -> TrainResult:
        """Train for `epochs` passes; a further call goes on from where the last one stopped.

        train, test: objects with `.x` (N, …) and `.y` (N, …), such as `MNIST().train`, or pairs (x,
        y); train may also be an iterable of pairs, a batch each, or a function that gives one for
        the number of an epoch, from 0. A smaller last batch is trained on too.
        evaluate_every: evaluate after so many steps too, not only at the end of each epoch.
        stop: end when nothing gets better. callbacks: functions of an Epoch, or objects with
        `on_step`, `on_evaluation`, `on_epoch`, given a Step, an Evaluation, an Epoch; one that
        gives True ends training.
        folder: where checkpoints and logs are written, `last.safetensors` at the end of each epoch
        or every `save_every` steps, `best.safetensors` by the measure `best` (see EarlyStopping);
        with `tensorboard` also its event files, with `plot` also `loss.png`. resume: go on with
        what lies there, bit for bit, up to `epochs` in all; begin where nothing does.

        Ctrl-C ends training after the current batch, within a second, and keeps what was
        learned; while the program is built, at once. Raises NotFiniteError at a loss that is not
        finite, DataError, ShapeError or DtypeError for data that do not fit, OptionError, or
        CheckpointError for a folder of another training.
        """
        tested = test is not None
        settings = settings_of(tested, epochs, shuffle, options)
        files = None if settings.folder is None else Folder(settings.folder)
        if files is not None and not settings.resume:
            files.check_empty()
        try:
            with building(progress):
                program, feed = self.prepare(train, test, shuffle, settings.epochs)
        except KeyboardInterrupt:
            Reporter(settings.epochs, 0, progress).say("stopped before the first epoch")
            return TrainResult((), interrupted=True, ended="interrupted")
        history, found = History(), None
        if files is not None:
            files.make()
            found = files.restore(program) if settings.resume else None
        if found is not None:
            history = found
            feed.seek(len(history.epochs), history.epoch.steps)
        return Fitting(program, feed, history, tested, settings, files, progress).run()

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
        program, feed = self.prepare(train, test, shuffle, None)
        asked = between if between is not None else lambda steps: False
        loop = Loop(program, feed, History(), test is not None, asked)
        return iter(loop.epoch, None)

    def predict(self, x: Any) -> Any:
        """The network's output for any number of rows, as `program.forward`: for CrossEntropy
        logits. x: (N, …), several inputs as a tuple. Raises ShapeError or DtypeError.
        """
        program = self.ready(x)
        with averages(program):
            found = program.forward(x)
        self.made = program
        return found

    def evaluate(self, data: Any) -> dict[str, float]:
        """Loss and metrics over some data, by name, whatever `fit` is evaluating. data: as `test`
        of `fit`. Raises DataError, ShapeError or DtypeError.
        """
        given = pair("data", data)
        program = self.ready(given[0])
        arrays = evaluation_samples(program, given)
        if self.scored is None or self.scored.samples != len(arrays[0]):
            built = program.build_resident({"evaluation": len(arrays[0])})
            self.scored = EvaluationData(program, *built["evaluation"])
        self.made = program
        self.scored.bind(arrays)
        with averages(program):
            return self.scored.evaluate()

    def confusion_matrix(self, data: Any, names: Sequence[str] | None = None) -> ConfusionMatrix:
        """How often rows of each true class were taken for each class. data: as `test` of `fit`,
        whose targets are class numbers, or 0 and 1 where the network gives one logit a row, taken
        for class 1 where it is greater than 0; names: of the classes. Raises DataError, ShapeError,
        DtypeError or OptionError.
        """
        x, y = pair("data", data)
        return confusion_of(self.predict(x), y, names)

    def explain(self, entry: str = "") -> Explanation:
        """What `noeira explain` says of what this trains: every launch of a training step, or of
        another entry. Nothing is trained.
        """
        from noeira.report.explain import explain

        if self.made is not None:
            return explain(self.made, entry=entry)
        return explain(self.given, **self.options, **({"entry": entry} if entry else {}))

    def restore(self, path: str | os.PathLike[str]) -> None:
        """Go on at the next `fit` from what `trainer.program.save(path)` wrote, here or elsewhere.

        Before the first `fit`, samples have the shapes that the type and `input` say. What the file
        brings is as it was there, the learning rate too: `trainer.program.lr` sets another. Raises
        CheckpointError for a file of another network or optimizer, DataError as `program`.
        """
        program = self.made or self.without_data()
        program.restore(path)
        self.made = program

    def prepare(
        self, train: Any, test: Any, shuffle: bool, epochs: int | None
    ) -> tuple[Program, ResidentFeed | StreamFeed]:
        """The program with these data in it, compiled at the first call, and what gives it its
        batches. epochs: how many will be asked for, if anybody knows.
        """
        given, opened = as_pair(train), None
        if given is None:
            source = source_of(train, epochs)
            opened = Batches(source, 0)
            sample = opened.next[0] if opened.next else None
        else:
            sample = given[0]
        evaluation = None if test is None else pair("test", test)
        program = self.program_for(sample)
        if given is not None:
            program.load(*given, evaluation=evaluation, shuffle=shuffle)
        elif evaluation is not None:
            program.load(evaluation=evaluation)
        # Kept only now: data that it refuses may not decide its shapes.
        self.made = program
        return program, ResidentFeed(program) if opened is None else StreamFeed(program, opened)

    def ready(self, x: Any) -> Program:
        """The program, with its entries built; one for such samples if there is none yet."""
        return self.program_for(x).prepare()

    def program_for(self, x: Any) -> Program:
        """The program, or one for such samples if there is none yet. Raises ShapeError for samples
        of another shape than those that it is compiled for.
        """
        shapes = input_shapes(x)
        if self.made is None:
            return self.compiled(shapes)
        if not self.options.get("input"):
            check_shapes(self.made, shapes)
        return self.made

    def without_data(self) -> Program:
        """A program for samples of the shapes that the type and `input` say. Raises DataError."""
        try:
            return self.compiled(None)
        except CompositionError as error:
            raise DataError(
                "the trainer has no program yet, and no data to know the shape of a sample from: "
                f"write Trainer(…, input=…), or call fit(train) first; {error}"
            ) from None

    def compiled(self, input: Any) -> Program:
        """A program for samples of these shapes, with nothing built yet."""
        from noeira.compiler import program_of

        found = {**self.options, "input": self.options.get("input") or input}
        return program_of(self.given, *options_of(self.given, found, "Trainer"))
