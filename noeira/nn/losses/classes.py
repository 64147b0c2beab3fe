"""Losses of classes: cross-entropies of rows of logits."""

from __future__ import annotations

from typing import Any, ClassVar

from noeira.errors import CompositionError
from noeira.ir.graph import Value
from noeira.ir.numbers import whole_number
from noeira.nn.core.binding import as_written
from noeira.nn.core.scope import Scope
from noeira.nn.core.slots import number, size
from noeira.nn.losses.base import ElementwiseLoss, Loss

__all__ = ["CrossEntropy", "FocalLoss", "SequenceCrossEntropy", "SoftCrossEntropy"]


def row_losses(
    loss: type[Loss], scope: Scope, op: str, logits: Value, target: Value, **attrs: Any
) -> Value:
    """Emit a cross-entropy of rows of logits. Raises CompositionError for rows of one."""
    loss.check_classes(logits)
    made, _ = scope.emit(op, logits, target, **attrs)
    return made


class RowLoss(ElementwiseLoss):
    """The parent of losses that are one op over rows of logits, which reduces them, too."""

    op: ClassVar[str]

    @classmethod
    def attrs(cls) -> dict[str, Any]:
        """The attributes of the node, but for the reduction."""
        return {}

    @classmethod
    def operands(cls, scope: Scope, prediction: Value, target: Value) -> tuple[Value, ...]:
        attrs = {**cls.attrs(), "reduction": "none"}
        return (row_losses(cls, scope, cls.op, prediction, target, **attrs),)

    @classmethod
    def each(cls, scope: Scope, rows: Value) -> Value:
        return rows

    @classmethod
    def trace(cls, scope: Scope, prediction: Value, target: Value) -> Value:
        attrs = {**cls.attrs(), "reduction": cls.REDUCTION}
        return row_losses(cls, scope, cls.op, prediction, target, **attrs)


class CrossEntropy(RowLoss):
    """mean over rows of logsumexp(x) − Σ_c t_c x_c for a class id y, t_c = (1 − smoothing)·[c = y]
    + smoothing / C.

    (*, C), (*: i32 < C) -> (). The prediction x are logits, C of them a row. The form of PyTorch's
    CrossEntropyLoss with `label_smoothing` (Szegedy et al. 2016).
    """

    SMOOTHING = number(0.0, low=0.0, high=1.0)
    signature = "(*, C), (*: i32 < C) -> ()"
    op = "cross_entropy"

    @classmethod
    def attrs(cls) -> dict[str, Any]:
        return {"smoothing": cls.SMOOTHING}


class SoftCrossEntropy(RowLoss):
    """mean over rows of logsumexp(x)·Σ_c t_c − Σ_c t_c x_c, t = (1 − smoothing)·target + smoothing
    / C.

    (*, C), (*, C) -> (). The target is a row of probabilities, which sums to 1, for each row of
    logits x.
    """

    SMOOTHING = number(0.0, low=0.0, high=1.0)
    signature = "(*, C), (*, C) -> ()"
    op = "soft_cross_entropy"

    @classmethod
    def attrs(cls) -> dict[str, Any]:
        return {"smoothing": cls.SMOOTHING}


class SequenceCrossEntropy(ElementwiseLoss):
    """mean over places of logsumexp(x) − x_y for the id y of each place of a sequence, as PyTorch's
    CrossEntropyLoss with `ignore_index`: (T, V), (T: i32 < V) -> ().

    `ignored`: an id, of padding say, whose places do not count: with `sum` and `none` their loss is
    0, and the mean is over the others. Without any other it is 0, where PyTorch gives NaN.
    """

    IGNORED = size(None, least=0)
    signature = "(T, V), (T: i32 < V) -> ()"
    unreduced = "(T)"

    @classmethod
    def refuse(cls, args: tuple[Any, ...], named: dict[str, Any]) -> None:
        given = whole_number(named.get("ignored", args[0] if args else None))
        if given is not None and given < 0:
            raise CompositionError(
                f"{as_written(cls, args, named)}: ignored is one of the ids, which begin with 0; "
                f"give these places one that has no other use: np.where(ids == {given}, 0, ids)"
            )

    @classmethod
    def operands(cls, scope: Scope, prediction: Value, target: Value) -> tuple[Value, ...]:
        ids, vocabulary = cls.IGNORED, prediction.type.shape[-1]
        if ids is not None and ids >= vocabulary:
            raise CompositionError(
                f"{cls!r}: ignored is one of the ids, which are below {vocabulary} here"
            )
        rows = row_losses(cls, scope, "cross_entropy", prediction, target, reduction="none")
        return rows, target

    @classmethod
    def each(cls, scope: Scope, rows: Value, ids: Value) -> Value:
        return (
            rows if cls.IGNORED is None else scope.emit("drop_id", rows, ids, ignored=cls.IGNORED)
        )

    @classmethod
    def counts(cls, scope: Scope, prediction: Value, target: Value) -> Value | None:
        if cls.IGNORED is None:
            return None
        one = scope.emit("constant", value=1.0, dtype=scope.dtype)
        return scope.emit("drop_id", one, target, ignored=cls.IGNORED)

    @classmethod
    def trace(cls, scope: Scope, prediction: Value, target: Value) -> Value:
        if cls.IGNORED is not None:
            return super().trace(scope, prediction, target)
        attrs = {"reduction": cls.REDUCTION}
        return row_losses(cls, scope, "cross_entropy", prediction, target, **attrs)


class FocalLoss(ElementwiseLoss):
    """mean over rows of −alpha · (1 − p)^gamma · log p, p = softmax(x)_y for a class id y (Lin et
    al. 2017).

    (*, C), (*: i32 < C) -> (). Of two classes given by one logit it is `BinaryFocalLoss`. `alpha`
    is the same for all classes.
    """

    GAMMA = number(2.0, low=0.0)
    ALPHA = number(1.0, above=0.0)
    signature = "(*, C), (*: i32 < C) -> ()"

    @classmethod
    def operands(cls, scope: Scope, prediction: Value, target: Value) -> tuple[Value, ...]:
        return (row_losses(cls, scope, "cross_entropy", prediction, target, reduction="none"),)

    @classmethod
    def each(cls, scope: Scope, rows: Value) -> Value:
        return scope.emit("focal", rows, gamma=cls.GAMMA, alpha=cls.ALPHA)
