"""The loop over the steps of a training: pieces of them, run natively, and looks in between."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from noeira.errors import DataError, DtypeError, ShapeError
from noeira.training.averages import averages
from noeira.training.history import History
from noeira.training.result import Epoch, Evaluation

if TYPE_CHECKING:
    from noeira.runtime.program import Program
    from noeira.training.feed import Feed, Piece
    from noeira.training.result import Ending

# What is to be done before the next step: a row of the logs, or one that ends the epoch.
ROW, END = "row", "end"


class Loop:
    """Trains a program on a feed, epoch by epoch.

    between: told of steps after each native call; True ends it there. every: numbers of steps after
    multiples of which a piece ends; evaluate_every is one of them. What is to be done at the
    moments of training is said by the methods of a child.
    """

    def __init__(
        self,
        program: Program,
        feed: Feed,
        history: History,
        tested: bool,
        between: Callable[[int], bool],
        evaluate_every: int | None = None,
        every: tuple[int, ...] = (),
    ) -> None:
        self.program, self.feed, self.history, self.tested = program, feed, history, tested
        self.between, self.evaluate_every, self.every = between, evaluate_every, every
        self.ending: Ending | None = None
        # Steps of the present piece, and whether `between` ended it; whether history has them all.
        self.steps, self.stopped, self.whole = 0, False, True
        self.shares = frozenset(name for name, kind in program.metrics.items() if kind.share)

    def piece_done(self, piece: Piece) -> None:
        """Some steps were done."""

    def row_done(self, evaluation: Evaluation, ended: bool) -> None:
        """An evaluation was made; ended: one that ends an epoch."""

    def epoch_done(self, epoch: Epoch) -> None:
        """An epoch is complete."""

    def look_done(self, ended: bool) -> None:
        """All is done that belongs between two pieces; ended: or two epochs."""

    def epoch(self) -> Epoch | None:
        """Train to the end of an epoch; None if something ended training before."""
        while self.ending is None:
            if not self.history.due:
                self.train()
            epoch = None
            if not self.stopped and self.history.due:
                epoch = self.look()
            if self.stopped:
                self.ending = "interrupted"
                return None
            self.look_done(epoch is not None)
            if epoch is not None:
                return epoch
        return None

    def ends(self, steps: int) -> bool:
        """Count steps, and ask whether to stop."""
        self.steps += steps
        self.stopped = self.between(steps)
        return self.stopped

    def train(self) -> None:
        """The next piece: up to the next step after which something is to be done."""
        history, self.steps, started = self.history, 0, time.perf_counter()
        most = min((n - history.steps % n for n in self.every), default=None)
        self.whole = False
        try:
            piece = self.feed.advance(most, self.ends)
        except (DataError, DtypeError, ShapeError):
            # A batch that did not fit was not trained on; those before it were.
            self.keep(self.feed.seen(), started)
            raise
        self.keep(piece, started)
        if piece.ended:
            history.due = END
        elif self.evaluate_every and history.steps % self.evaluate_every == 0:
            history.due = ROW
        if piece.samples:
            self.piece_done(piece)

    def keep(self, piece: Piece, started: float) -> None:
        """Have the steps that were made since `started` in the history."""
        history = self.history
        history.add(piece.total, piece.samples, piece.norm, self.steps)
        if self.steps:
            history.lr = piece.lr
        history.spend(time.perf_counter() - started)
        self.whole = True

    def look(self) -> Epoch | None:
        """Evaluate, if `between` does not end it; gives the epoch, if it ends here."""
        history, started, found = self.history, time.perf_counter(), {}
        if self.tested:
            with averages(self.program):
                found = self.program.loaded_evaluation().evaluate(self.ends)
        if self.stopped:
            return None
        history.spend(time.perf_counter() - started, evaluating=True)
        ended, history.due = history.due == END, ""
        evaluation = Evaluation(
            history.steps,
            len(history.epochs) + 1,
            round(history.seconds, 3),
            history.lr,
            history.row.mean,
            history.row.mean_norm,
            found,
        )
        epoch = self.epoch_of(evaluation) if ended else None
        history.close(evaluation, epoch)
        self.row_done(evaluation, ended)
        if epoch is not None:
            self.epoch_done(epoch)
        return epoch

    def epoch_of(self, last: Evaluation) -> Epoch:
        """The record of an epoch that ends with this evaluation."""
        history, metrics = self.history, dict(last.test)
        return Epoch(
            history.epoch.mean,
            metrics.pop("loss", None),
            history.epoch_seconds,
            metrics,
            self.shares,
            number=last.epoch,
            step=last.step,
            samples=history.epoch.samples,
            evaluating=history.evaluating,
            lr=last.lr,
        )
