"""What losses are: the parent of all, and that of losses which are a value for each element and a
sum of these.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar, TypeAlias

from noeira.errors import CompositionError, OptionError
from noeira.ir.graph import Value
from noeira.nn.core.arithmetic import arithmetic
from noeira.nn.core.criteria import Criterion, criterion_type
from noeira.nn.core.promise import shown
from noeira.nn.core.scope import Scope
from noeira.nn.core.signature import Signature, parse_signature
from noeira.nn.core.slots import choice

__all__ = ["ElementwiseLoss", "Loss"]


class Loss(Criterion):
    """The parent of the losses.

    Its signature says what target goes with a prediction; the result is a number.
    """

    role = "loss"

    @classmethod
    def predictions(cls) -> int:
        """How many of its inputs are outputs of a network; what follows are targets."""
        return 1

    @classmethod
    def advice(cls) -> str:
        return f"; for a loss for each output write Losses[{cls!r}, …]"

    @classmethod
    def check_classes(cls, logits: Value) -> None:
        """Raises CompositionError for rows of one logit: such a loss is always 0."""
        if logits.type.shape[-1] == 1:
            raise CompositionError(
                f"{cls!r} compares the logits of classes, and the network gives one number a row: "
                "for numbers write loss=MSE, for two classes let it give two logits"
            )


# How a loss is given: CrossEntropy, CrossEntropy.of(smoothing=0.1), or an instance of one.
LossLike: TypeAlias = "Loss | type[Loss]"


class ElementwiseLoss(Loss):
    """The parent of losses that are a value for each element, and the mean of these: a loss of your
    own defines `each`. It is a fused type: what `each` emits and the sum are one kernel, and so is
    their gradient.

    (*), (*) -> (). `reduction`: `mean` (over all values), `sum`, or `none`, the values themselves,
    for a module that runs the loss inside; `unreduced` is their shape for one sample. A class whose
    outputs or targets are others says so in `signature`.
    """

    REDUCTION = choice("mean", "sum", "none")
    signature = "(*), (*) -> ()"
    unreduced: ClassVar[str] = "(*)"

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if not cls.is_made:
            # The parameters of a loss come first: `Huber[0.5]`.
            own = {name: slot for name, slot in cls._slots.items() if name != "REDUCTION"}
            cls._slots = own | {"REDUCTION": cls._slots["REDUCTION"]}

    @classmethod
    def keeps_batch(cls) -> bool:
        return cls.REDUCTION == "none"

    @classmethod
    def patterns(cls) -> tuple[str, str]:
        """`signature` and `unreduced`, where options decide them."""
        return cls.signature, cls.unreduced

    @classmethod
    def compose(cls) -> Signature:
        whole, values = cls.patterns()
        found = parse_signature(whole, cls.__name__)
        if cls.keeps_batch():
            found = replace(found, outputs=parse_signature(f"() -> {values}", cls.__name__).outputs)
        return found.filled(cls.sizes)

    @classmethod
    def each(cls, scope: Scope, *operands: Any, **options: Any) -> Value:
        """Emit the values, element-wise in `operands`.

        Raises CompositionError in a class that does not define it.
        """
        raise CompositionError(
            f"{cls.__name__} has no each: define the classmethod each(cls, scope, prediction, "
            "target), which gives a value for each element"
        )

    @classmethod
    def operands(cls, scope: Scope, *given: Any, **options: Any) -> tuple[Value, ...]:
        """What `each` is given; by default what the loss is. What is no part of the kernel, such as
        an op over rows, is emitted here.
        """
        return given

    @classmethod
    def counts(cls, scope: Scope, *given: Any, **options: Any) -> Value | None:
        """1 for each value that counts in the mean, else 0; None if all do."""
        return None

    @classmethod
    def fused(
        cls,
        scope: Scope,
        given: tuple[Value, ...],
        finish: Callable[[Scope, Value], Value],
    ) -> Value:
        """What `finish` makes of the values, at the place whose nodes are one kernel."""
        operands = cls.operands(scope, *given)
        here = scope.fused()
        with arithmetic(here):
            each = cls.each(here, *operands)
            check_each(cls, given, each)
            return finish(here, each)

    @classmethod
    def trace(cls, scope: Scope, *given: Any, **options: Any) -> Value:
        def finish(here: Scope, each: Value) -> Value:
            beside = scope.fused()
            counts = cls.counts(beside, *given) if cls.REDUCTION == "mean" else None
            if counts is None:
                return reduced(here, each, cls.REDUCTION)
            return scope.emit("ratio", here.emit("sum", each), beside.emit("sum", counts))

        return cls.fused(scope, given, finish)


def check_each(loss: type[Loss], given: tuple[Value, ...], each: Any) -> None:
    """Raises CompositionError unless `each` gave a value for each sample, or several."""
    if isinstance(each, Value) and each.type.shape[:1] == given[0].type.shape[:1]:
        return
    found = each.type if isinstance(each, Value) else shown(each)
    raise CompositionError(
        f"{loss!r}: each gives {found}; it is to give a value for each element, and these are "
        "added up afterwards"
    )


def reduced(scope: Scope, each: Value, reduction: str) -> Value:
    """The values as they are, or their sum: of all, divided by their number or by the samples."""
    if reduction == "none":
        return each
    scales = {"sum": 1.0, "mean": 1 / each.type.size, "batchmean": 1 / each.type.shape[0]}
    return scope.emit("sum", each, scale=scales[reduction])


def loss_type(value: Any) -> type[Loss]:
    """The type of what a user gave as the loss.

    Raises OptionError that says how one is given, and for one that gives no number.
    """
    found = criterion_type(value, Loss, "CrossEntropy")
    if found.keeps_batch():
        raise OptionError(
            f"loss: {found!r} gives {found.shapes().outputs[0]} for each sample, and training "
            "takes a number: leave reduction='none' out, or run it inside a loss of your own"
        )
    return found
