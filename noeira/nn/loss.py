"""Losses: modules of the network's outputs, then of targets, that give one number, the mean over
the batch.
"""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Sequence
from typing import Any, ClassVar, TypeAlias

from noeira.errors import CompositionError, OptionError
from noeira.ir.graph import Value
from noeira.nn.core.criteria import Criterion
from noeira.nn.core.module import Module
from noeira.nn.core.scope import Scope
from noeira.nn.core.signature import Pattern, Signature, listed
from noeira.nn.core.slots import modules, number

__all__ = ["MSE", "CrossEntropy", "Loss", "Losses", "SoftCrossEntropy"]


class Loss(Criterion):
    """The parent of the losses.

    Its signature says what target goes with a prediction; the result is a number.
    """

    role = "loss"

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


class CrossEntropy(Loss):
    """mean over rows of logsumexp(x) − Σ_c t_c x_c for a class id y, t_c = (1 − smoothing)·[c = y]
    + smoothing / C.

    (*, C), (*: i32 < C) -> (). The prediction x are logits, C of them a row. The form of PyTorch's
    CrossEntropyLoss with `label_smoothing` (Szegedy et al. 2016).
    """

    SMOOTHING = number(0.0, low=0.0, high=1.0)
    signature = "(*, C), (*: i32 < C) -> ()"

    @classmethod
    def trace(cls, scope: Scope, prediction: Value, target: Value) -> Value:
        cls.check_classes(prediction)
        loss, _ = scope.emit("cross_entropy", prediction, target, smoothing=cls.SMOOTHING)
        return loss


class SoftCrossEntropy(Loss):
    """mean over rows of logsumexp(x)·Σ_c t_c − Σ_c t_c x_c, t = (1 − smoothing)·target + smoothing
    / C.

    (*, C), (*, C) -> (). The target is a row of probabilities, which sums to 1, for each row of
    logits x.
    """

    SMOOTHING = number(0.0, low=0.0, high=1.0)
    signature = "(*, C), (*, C) -> ()"

    @classmethod
    def trace(cls, scope: Scope, prediction: Value, target: Value) -> Value:
        cls.check_classes(prediction)
        loss, _ = scope.emit("soft_cross_entropy", prediction, target, smoothing=cls.SMOOTHING)
        return loss


class MSE(Loss):
    """mean over all elements of (prediction − target)², as PyTorch's MSELoss: (*), (*) -> ()."""

    signature = "(*), (*) -> ()"

    @classmethod
    def trace(cls, scope: Scope, prediction: Value, target: Value) -> Value:
        return scope.emit("mse", prediction, target)


class Losses(Loss):
    """`Losses[A, B, …]`: the sum of a loss for each output of a network, in order.

    The targets are those of A, then those of B, …
    """

    LOSSES = modules("loss")
    placeholders: ClassVar[dict[str, str]] = {"LOSSES": "A, B, …"}

    @classmethod
    def children(cls) -> tuple[tuple[str, type[Module]], ...]:
        return tuple((str(index), part) for index, part in enumerate(cls.LOSSES))

    @classmethod
    def compose(cls) -> Signature:
        parts = [part.shapes().apart(index) for index, part in enumerate(cls.LOSSES)]
        outputs = [part.inputs[0] for part in parts]
        targets = [pattern for part in parts for pattern in part.inputs[1:]]
        rules = tuple(rule for part in parts for rule in part.where)
        return Signature((*outputs, *targets), (Pattern(()),), rules).tidy()

    @classmethod
    def wants(cls, net: type[Module], outputs: Sequence[Pattern]) -> tuple[Pattern, ...]:
        count = len(outputs)
        if len(cls.LOSSES) != count:
            raise CompositionError(
                f"{net!r} gives {count} output{'s' * (count > 1)}, {listed(tuple(outputs))}; "
                f"{cls!r} are {len(cls.LOSSES)} losses, and there is to be one for each"
            )
        return super().wants(net, outputs)

    @classmethod
    def trace(cls, scope: Scope, *given: Value) -> Value:
        children = cls.inside
        outputs, targets = given[: len(children)], iter(given[len(children) :])
        losses = list[Value]()
        for output, (name, part) in zip(outputs, children, strict=True):
            own = itertools.islice(targets, len(part.shapes().inputs) - 1)
            losses.append(scope.child(name, part).run(output, *own))
        return functools.reduce(operator.add, losses)


def loss_type(value: Any) -> type[Loss]:
    """The type of what a user gave as the loss.

    Raises OptionError that says how one is given.
    """
    return role_type(value, Loss, "loss", "CrossEntropy")


def role_type(value: Any, parent: type[Module], role: str, example: str) -> Any:
    """A module type of the given role from its type or an instance. Raises OptionError."""
    found = type(value) if isinstance(value, Module) else value
    if isinstance(found, str):
        raise OptionError(f"{role}: write the type, such as {example}, not the text {found!r}")
    if not isinstance(found, type) or not issubclass(found, Module):
        raise OptionError(f"{role} must be a {role} type such as {example}, not {value!r}")
    if found is parent or not issubclass(found, parent):
        # Those of noeira, whatever else a program has defined.
        own = [child for child in parent.__subclasses__() if child.__module__.startswith("noeira.")]
        known = ", ".join(sorted(child.__name__ for child in own))
        raise OptionError(
            f"{role} must be a {role} type such as {example}; {found!r} is none; there are {known}"
        )
    found.need_parameters(role)
    return found
