"""Where the batches of a training come from: a data set that its program has loaded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

from noeira.errors import DataError, NoeiraError, ShapeError
from noeira.ir.states import GRAD_NORM, LOSS, is_target
from noeira.nn.core.module import solved_for
from noeira.runtime.program import Program

# Told the number of steps after each native call; True ends the call for steps early.
Between = Callable[[int], bool]


@dataclass(frozen=True)
class Piece:
    """What some steps told: the sum of the losses of their samples, and the number of these. lr: of
    the last step. norm: of gradients before clipping, the sum over the steps, None where nobody
    clips by it. ended: whether the epoch is complete.
    """

    total: float
    samples: int
    lr: float
    norm: float | None
    ended: bool = False


class Feed(Protocol):
    """Gives a program the batches of one epoch after another."""

    @property
    def batches(self) -> int | None:
        """Steps in an epoch, None if nobody knows yet."""
        ...

    def seek(self, epoch: int, done: int) -> None:
        """Stand after so many steps of an epoch, from 0."""
        ...

    def advance(self, most: int | None, between: Between) -> Piece:
        """Up to `most` steps of the present epoch, None for all that are left."""
        ...

    def seen(self) -> Piece:
        """The steps since `advance` was last called, while it runs and when it has failed."""
        ...


class ResidentFeed:
    """The loaded data, stepped natively."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.first = 0

    @property
    def batches(self) -> int | None:
        """Steps in an epoch."""
        return self.program.loaded().batches

    def seek(self, epoch: int, done: int) -> None:
        """See that the program, which knows where it stands, stands there. Raises DataError if its
        data are others than those it stood in.
        """
        data = self.program.loaded()
        if data.done != done % data.batches:
            raise DataError(
                f"training stopped after {done} steps of epoch {epoch + 1}, in data of another "
                f"number or order than these {data.samples} samples: give it those, and shuffle as "
                "it was"
            )

    def advance(self, most: int | None, between: Between) -> Piece:
        """As Feed has it. Raises NotFiniteError."""
        data = self.program.loaded()
        left = data.batches - data.done
        self.first = int(data.cursor)
        data.steps(left if most is None else min(most, left), between)
        return replace(self.seen(), ended=int(data.cursor) % data.samples == 0)

    def seen(self) -> Piece:
        """As Feed has it."""
        data = self.program.loaded()
        norm = float(data.totals[GRAD_NORM]) if GRAD_NORM in data.totals else None
        return Piece(float(data.totals[LOSS]), int(data.cursor) - self.first, data.rate, norm)


def pair(name: str, data: Any) -> tuple[Any, Any]:
    """(x, y) from an object that has them, or from a pair. Raises DataError."""
    found = as_pair(data)
    if found is None:
        raise DataError(
            f"{name} must have .x and .y, such as MNIST().test, or be a pair (x, y), "
            f"not {described(name, data)}"
        )
    return found


def described(name: str, data: Any) -> str:
    """What was given where a pair goes, and what to give."""
    kind = type(data).__name__
    if isinstance(data, (tuple, list)):
        parts = f"a {kind} of {len(data)}"
        if len(data) > 2:
            return f"{parts}; several targets, or weights of samples, are a tuple: (x, (y, w))"
        return f"{parts}; its targets are missing" if len(data) == 1 else parts
    if isinstance(getattr(data, "tensors", None), tuple):
        return f"{kind}: give its arrays, {name}.tensors"
    if isinstance(getattr(getattr(data, "dataset", None), "tensors", None), tuple):
        return f"{kind}, which gives batches: give all its arrays, {name}.dataset.tensors"
    if hasattr(data, "dataset"):
        return f"{kind}, which gives batches: give all its samples as two arrays"
    return kind


def as_pair(data: Any) -> tuple[Any, Any] | None:
    """(x, y), or None if it is neither. A list of two pairs is two batches, not a pair."""
    if hasattr(data, "x") and hasattr(data, "y"):
        return data.x, data.y
    if not isinstance(data, (tuple, list)) or len(data) != 2:
        return None
    if isinstance(data, list) and all(isinstance(part, (tuple, list)) for part in data):
        return None
    return data[0], data[1]


def input_shapes(x: Any) -> Any:
    """The shape of one sample of each input."""
    if isinstance(x, tuple):
        return tuple(tuple(part.shape[1:]) for part in x)
    return tuple(x.shape[1:]) if hasattr(x, "shape") else None


def check_shapes(program: Program, shapes: Any) -> None:
    """Raises ShapeError for samples that the network takes, and this program of it does not, which
    is compiled for samples of other shapes.
    """
    inputs = [one.value.type.shape[1:] for one in program.inputs if not is_target(one.value.name)]
    taken = tuple(inputs) if len(inputs) > 1 else inputs[0]
    if shapes is None or shapes == taken:
        return
    try:
        solved_for(type(program.module), shapes)
    except NoeiraError:
        return  # What is wrong is said of the arrays, by name.
    raise ShapeError(
        f"the samples are {shapes}, and the trainer's program is compiled for {taken}: for these, "
        f"write Trainer(…, input={shapes})"
    )
