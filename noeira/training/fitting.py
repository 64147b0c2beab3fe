"""One call of `fit`: the loop with what surrounds it, which is callbacks, logs, checkpoints and
progress.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from noeira.ir.states import GRAD_NORM
from noeira.runtime.interrupts import Interrupts
from noeira.training.averages import has_average
from noeira.training.folder import BEST, LAST, PICTURE, Folder
from noeira.training.history import History
from noeira.training.logs import Logs, columns_of
from noeira.training.loop import Loop
from noeira.training.measure import Measure, measure_of
from noeira.training.progress import Reporter
from noeira.training.result import Epoch, Evaluation, Step, TrainResult

if TYPE_CHECKING:
    from noeira.runtime.program import Program
    from noeira.training.feed import Feed, Piece
    from noeira.training.settings import Settings


class Fitting(Loop):
    """Trains as the settings say. history: as a former call left it, or new."""

    def __init__(
        self,
        program: Program,
        feed: Feed,
        history: History,
        tested: bool,
        settings: Settings,
        folder: Folder | None,
        shown: bool,
    ) -> None:
        step_by_step = settings.callbacks.wants("on_step")
        every = (settings.evaluate_every, settings.save_every, 1 if step_by_step else None)
        super().__init__(
            program,
            feed,
            history,
            tested,
            self.asked,
            settings.evaluate_every,
            tuple(n for n in every if n is not None),
        )
        self.settings, self.folder, self.step_by_step = settings, folder, step_by_step
        option, text = settings.measure
        text = history.measure or None if text is None else text
        self.measure: Measure = measure_of(option, text, tested, program.metrics)
        history.follow(self.measure, settings.folder)
        self.reporter = Reporter(settings.epochs, feed.batches, shown, has_average(program))
        self.interrupts = Interrupts()
        columns = columns_of(tuple(program.metrics), tested, tells_norm(program))
        events = settings.tensorboard
        self.logs = None if folder is None else Logs(folder.path, columns, events)
        # Steps and rows of the history that the last checkpoint has.
        self.saved = (history.steps, len(history.evaluations))
        self.place_of_best = None if folder is None else folder.path / BEST
        # The callback that asked to stop.
        self.asker = ""
        # Whether it went back to the best evaluation.
        self.restored = False

    def asked(self, steps: int) -> bool:
        """Show progress; gives whether Ctrl-C was pressed."""
        # None are done by an evaluation, of whose batches the feed knows nothing.
        if steps:
            self.reporter.advance(steps, self.told)
        return self.interrupts.wanted

    def told(self) -> tuple[float, int, float]:
        """Sum of losses and samples of the present epoch, and the learning rate."""
        piece, known = self.feed.seen(), self.history.epoch
        return known.loss + piece.total, known.samples + piece.samples, piece.lr

    def run(self) -> TrainResult:
        """Train to the end of the last epoch, or until something ends it."""
        history, settings = self.history, self.settings
        with ExitStack() as stack:
            for context in (self.place_for_best(), self.interrupts, self.reporter, self.files()):
                stack.enter_context(context)
            self.say_where()
            if self.out_of_patience:
                self.ending = "patience"
            while self.ending is None and len(history.epochs) < settings.epochs:
                known, batches = history.epoch, self.feed.batches
                self.reporter.begin(len(history.epochs) + 1, known, batches)
                self.epoch()
            self.say_why()
            if settings.stop is not None and settings.stop.restore:
                self.go_back()
        return self.result()

    def result(self) -> TrainResult:
        """What it gives."""
        history = self.history
        best = None if history.best is None else history.evaluations[history.best]
        interrupted, rows = self.ending == "interrupted", tuple(history.evaluations)
        ending = self.ending or "epochs"
        return TrainResult(tuple(history.epochs), interrupted, rows, best, ending, self.restored)

    @property
    def out_of_patience(self) -> bool:
        """Whether nothing got better for as long as that may be."""
        stop = self.settings.stop
        return stop is not None and self.history.waited >= stop.patience

    @contextmanager
    def place_for_best(self) -> Iterator[None]:
        """Have a place for the best checkpoint, where `stop` goes back to it."""
        if self.place_of_best is not None or self.settings.stop is None:
            yield
            return
        with tempfile.TemporaryDirectory(prefix="noeira-") as made:
            self.place_of_best = Path(made) / BEST
            yield

    @contextmanager
    def files(self) -> Iterator[None]:
        """Write the files of the folder meanwhile, and the last ones at the end, whatever ends
        training, unless it was in the midst of a piece.
        """
        if self.folder is None or self.logs is None:
            yield
            return
        self.logs.begin(self.history.evaluations)
        try:
            yield
        finally:
            self.logs.close()
            if self.whole:
                self.save_last()
            if self.settings.plot and self.history.evaluations:
                from noeira.training.picture import draw

                rows, path = self.history.evaluations, self.folder.path / PICTURE
                draw(rows, self.shares, self.result().best, path)

    def save_last(self) -> None:
        """Write the last checkpoint, unless the present one is that already."""
        present = (self.history.steps, len(self.history.evaluations))
        if self.folder is not None and self.saved != present:
            self.folder.save_last(self.program, self.history)
            self.saved = present

    def piece_done(self, piece: Piece) -> None:
        """As Loop has it."""
        if self.step_by_step:
            number, loss = len(self.history.epochs) + 1, piece.total / piece.samples
            self.tell(
                "on_step", Step(self.history.steps, number, loss, self.history.lr, piece.norm)
            )

    def row_done(self, evaluation: Evaluation, ended: bool) -> None:
        """As Loop has it."""
        better = self.history.judge(self.measure, self.settings.least)
        if self.logs is not None:
            self.logs.add(evaluation)
        if better and self.folder is not None:
            self.folder.save_best(self.program, self.history)
        elif better and self.place_of_best is not None:
            self.program.save(self.place_of_best)
        if not ended:
            self.reporter.row(evaluation, self.shares)
        if self.out_of_patience:
            self.ending = "patience"
        self.tell("on_evaluation", evaluation)

    def epoch_done(self, epoch: Epoch) -> None:
        """As Loop has it."""
        self.reporter.end(epoch)
        self.tell("on_epoch", epoch)

    def look_done(self, ended: bool) -> None:
        """As Loop has it."""
        every = self.settings.save_every
        if ended if every is None else self.history.steps % every == 0:
            self.save_last()

    def tell(self, moment: str, record: Any) -> None:
        """Call the callbacks of a moment, which may ask to stop."""
        name = self.settings.callbacks.tell(moment, record)
        if name and self.ending is None:
            self.ending, self.asker = "callback", name

    def say_where(self) -> None:
        """Say where a training is gone on with."""
        steps, done = self.history.steps, len(self.history.epochs)
        if steps and done >= self.settings.epochs:
            self.reporter.say(f"nothing to do: {done} epochs are done, of {self.settings.epochs}")
        elif steps:
            self.reporter.say(f"going on after step {steps}, in epoch {done + 1}")
            self.say_rate()

    def say_rate(self) -> None:
        """Say so if the checkpoint brought another learning rate than the trainer had."""
        if self.folder is not None and self.folder.replaced_rate is not None:
            self.reporter.say(
                f"the learning rate goes on at {self.program.lr:.6g}, as it was saved, not at "
                f"{self.folder.replaced_rate:.6g}; a callback may set trainer.program.lr"
            )

    def say_why(self) -> None:
        """Say what ended training before its last epoch."""
        history, stop = self.history, self.settings.stop
        if self.ending == "interrupted":
            kept = "what was learned is kept"
            if self.folder is not None:
                kept = f"what was learned is in {self.folder.path / LAST}"
            number = len(history.epochs) + 1
            self.reporter.say(f"stopped in epoch {number}/{self.settings.epochs}; {kept}")
        elif self.ending == "callback":
            self.reporter.say(f"stopped after step {history.steps}: {self.asker} asked for it")
        elif self.ending == "patience" and stop is not None:
            column, found = self.measure.column, history.best_value
            best = "it never was a number" if found is None else f"its best is {found:.4g}"
            self.reporter.say(
                f"stopped after step {history.steps}: {column} got no better for "
                f"{history.waited} evaluations; {best}"
            )

    def go_back(self) -> None:
        """Restore the best evaluation, if it is not the last one."""
        history = self.history
        if history.best is None or history.evaluations[history.best].step == history.steps:
            return
        step = history.evaluations[history.best].step
        if self.folder is not None and not self.folder.has_best(history):
            self.reporter.say(f"{BEST} is not that of step {step}: the network is the last one")
            return
        assert self.place_of_best is not None
        self.save_last()
        self.program.restore(self.place_of_best)
        self.restored = True
        self.reporter.say(f"the network is that of step {step} again, the best by its measure")


def tells_norm(program: Program) -> bool:
    """Whether a program's steps tell the norm of their gradients."""
    return any(value.name == GRAD_NORM for value in program.entry("step").graph.outputs)
