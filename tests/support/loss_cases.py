"""Every loss with what it is in PyTorch, and a network whose gradients are those of its outputs."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from noeira.ir.graph import Value
from noeira.nn import (
    L1,
    MSE,
    BCEWithLogits,
    BinaryFocalLoss,
    CategoricalKL,
    CrossEntropy,
    FocalLoss,
    GaussianKL,
    GaussianNLL,
    Huber,
    KLDivergence,
    KLWithLogits,
    Loss,
    Module,
    Param,
    Scope,
    SequenceCrossEntropy,
    SmoothL1,
    SoftCrossEntropy,
    StandardNormalKL,
    Weighted,
    size,
)

# Places of a sequence.
PLACES = 3
Targets = tuple[np.ndarray, ...]


@dataclass(frozen=True)
class Case:
    """A loss; what it is in PyTorch, of outputs and targets; how targets are drawn, given the
    numbers of rows and columns; how many outputs a sample has, given its columns.
    """

    loss: type[Loss]
    theirs: Callable[..., Any]
    targets: Callable[[np.random.Generator, int, int], Targets]
    width: Callable[[int], tuple[int, ...]] = lambda columns: (columns,)


def real(random: np.random.Generator, rows: int, columns: int) -> Targets:
    return (random.standard_normal((rows, columns)),)


def twice(random: np.random.Generator, rows: int, columns: int) -> Targets:
    return (random.standard_normal((rows, 2 * columns)),)


def shares(random: np.random.Generator, rows: int, columns: int) -> Targets:
    return (random.uniform(size=(rows, columns)),)


def bits(random: np.random.Generator, rows: int, columns: int) -> Targets:
    return (random.integers(0, 2, (rows, columns)).astype(float),)


def rows_of(random: np.random.Generator, rows: int, columns: int) -> Targets:
    """Probabilities, some of them 0."""
    found = random.dirichlet(np.ones(classes(columns)[0]), rows)
    found[::2, 0] = 0
    return (found / found.sum(-1, keepdims=True),)


def logits(random: np.random.Generator, rows: int, columns: int) -> Targets:
    return (random.standard_normal((rows, *classes(columns))),)


def ids(random: np.random.Generator, rows: int, columns: int) -> Targets:
    return (random.integers(0, classes(columns)[0], rows),)


def sequences(random: np.random.Generator, rows: int, columns: int) -> Targets:
    found = random.integers(0, classes(columns)[0], (rows, PLACES))
    found[0, 0] = 1
    return (found,)


def weighted(targets: Any) -> Any:
    """The targets, then weights, the first of them 0."""

    def drawn(random: np.random.Generator, rows: int, columns: int) -> Targets:
        weights = random.uniform(0.5, 2, rows)
        weights[0] = 0.25 if rows == 1 else 0
        return (*targets(random, rows, columns), weights)

    return drawn


def classes(columns: int) -> tuple[int, ...]:
    return (max(columns, 2),)


def places(columns: int) -> tuple[int, ...]:
    return (PLACES, *classes(columns))


def doubled(columns: int) -> tuple[int, ...]:
    return (2 * columns,)


def mean_of(values: Any, weights: Any) -> Any:
    """The weighted mean of values of samples."""
    each = weights.reshape(*weights.shape, *(1 for _ in values.shape[weights.dim() :]))
    return (values * each).sum() / each.expand_as(values).sum()


def focal(F: Any, z: Any, y: Any) -> Any:
    rows = F.cross_entropy(z, y, reduction="none")
    return (0.5 * (1 - (-rows).exp()) ** 2.5 * rows).mean()


def binary_focal(F: Any, x: Any, t: Any) -> Any:
    p = x.sigmoid()
    right, share = p * t + (1 - p) * (1 - t), 0.25 * t + 0.75 * (1 - t)
    each = F.binary_cross_entropy_with_logits(x, t, reduction="none")
    return (share * (1 - right) ** 2 * each).mean()


def gaussian_nll(F: Any, z: Any, y: Any) -> Any:
    mean, v = z.chunk(2, -1)
    return F.gaussian_nll_loss(mean, y, v.clamp(-1, 0.5).exp(), eps=1e-12)


def standard_normal(F: Any, z: Any) -> Any:
    mean, v = z.chunk(2, -1)
    return (0.5 * (mean**2 + v.exp() - 1 - v)).sum() / len(z)


def gaussian_kl(F: Any, z: Any, t: Any) -> Any:
    (m, v), (n, w) = z.chunk(2, -1), t.chunk(2, -1)
    return (0.5 * (w - v + (v.exp() + (m - n) ** 2) / w.exp() - 1)).sum() / len(z)


def batch_mean(F: Any, x: Any, t: Any) -> Any:
    return F.kl_div(x, t, reduction="batchmean")


def sequence(F: Any, z: Any, y: Any, **options: Any) -> Any:
    return F.cross_entropy(z.flatten(0, 1), y.flatten(), **options)


CASES = (
    Case(MSE, lambda F, x, t: F.mse_loss(x, t), real),
    Case(MSE.of(reduction="sum"), lambda F, x, t: F.mse_loss(x, t, reduction="sum"), real),
    Case(L1, lambda F, x, t: F.l1_loss(x, t), real),
    Case(Huber[0.5], lambda F, x, t: F.huber_loss(x, t, delta=0.5), real),
    Case(SmoothL1[0.5], lambda F, x, t: F.smooth_l1_loss(x, t, beta=0.5), real),
    Case(
        BCEWithLogits[2.5],
        lambda F, x, t: F.binary_cross_entropy_with_logits(x, t, pos_weight=t.new_tensor(2.5)),
        shares,
    ),
    Case(BinaryFocalLoss, binary_focal, bits),
    Case(KLDivergence.of(reduction="batchmean"), batch_mean, shares),
    Case(
        KLDivergence.of(log_target=True),
        lambda F, x, t: F.kl_div(x, t, reduction="none", log_target=True).mean(),
        real,
    ),
    Case(GaussianNLL.of(low=-1, high=0.5), gaussian_nll, real, doubled),
    Case(StandardNormalKL, standard_normal, lambda *_: (), doubled),
    Case(GaussianKL, gaussian_kl, twice, doubled),
    Case(
        CrossEntropy.of(smoothing=0.1, reduction="sum"),
        lambda F, z, y: F.cross_entropy(z, y, label_smoothing=0.1, reduction="sum"),
        ids,
        classes,
    ),
    Case(
        SoftCrossEntropy.of(reduction="sum"),
        lambda F, z, t: F.cross_entropy(z, t, reduction="sum"),
        rows_of,
        classes,
    ),
    Case(FocalLoss[2.5, 0.5], focal, ids, classes),
    Case(KLWithLogits, lambda F, z, t: batch_mean(F, z.log_softmax(-1), t), rows_of, classes),
    Case(
        CategoricalKL,
        lambda F, z, t: batch_mean(F, z.log_softmax(-1), t.softmax(-1)),
        logits,
        classes,
    ),
    Case(SequenceCrossEntropy, sequence, sequences, places),
    Case(
        SequenceCrossEntropy.of(ignored=0),
        lambda F, z, y: sequence(F, z, y, ignore_index=0),
        sequences,
        places,
    ),
    Case(
        Weighted[MSE],
        lambda F, x, t, w: mean_of(F.mse_loss(x, t, reduction="none"), w),
        weighted(real),
    ),
    Case(
        Weighted[CrossEntropy],
        lambda F, z, y, w: mean_of(F.cross_entropy(z, y, reduction="none"), w),
        weighted(ids),
        classes,
    ),
    Case(
        Weighted.of(Huber, reduction="sum"),
        lambda F, x, t, w: (F.huber_loss(x, t, reduction="none") * w[:, None]).sum(),
        weighted(real),
    ),
    Case(
        Weighted[SequenceCrossEntropy.of(ignored=0)],
        lambda F, z, y, w: mean_of(
            F.cross_entropy(z.flatten(0, 1), y.flatten(), reduction="none").reshape(y.shape),
            w[:, None] * (y != 0),
        ),
        weighted(sequences),
        places,
    ),
)


class Places(Module):
    """One row as places of a sequence."""

    T, V = size(), size()
    signature = "(T*V) -> (T, V)"

    @classmethod
    def trace(cls, scope: Scope, x: Value) -> Value:
        return scope.emit("reshape", x, shape=(x.type.shape[0], cls.T, cls.V))


def heads(cases: tuple[Case, ...], rows: int, columns: int) -> type[Module]:
    """A network whose output for each case is x·W: of x the identity it is the parameter W, and the
    gradient of that the gradient of the loss in the output.
    """
    shapes = [case.width(columns) for case in cases]
    written = ", ".join(f"({', '.join(map(str, shape))})" for shape in shapes)

    def trace(cls: Any, scope: Scope, x: Value) -> Any:
        found = list[Value]()
        for index, shape in enumerate(shapes):
            flat = scope.emit("matmul", x, scope.param(f"w{index}"))
            found.append(scope.emit("reshape", flat, shape=(rows, *shape)))
        return tuple(found) if len(found) > 1 else found[0]

    space: dict[str, Any] = {
        f"w{index}": Param(str(rows), str(math.prod(shape))) for index, shape in enumerate(shapes)
    }
    space |= {"signature": f"({rows}) -> {written}", "trace": classmethod(trace)}
    return type(Module)("Heads", (Module,), space)
