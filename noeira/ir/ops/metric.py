"""Metrics: counts that add up over batches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from noeira.errors import ShapeError
from noeira.ir import graph
from noeira.ir.checks import check_classes
from noeira.ir.ops.logits import ClassNumbers
from noeira.ir.samples import BadSample, Draw, Sample, f32, i32
from noeira.ir.types import TensorType

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class TopKAttrs(graph.Attrs):
    """k: a row counts if fewer than k classes come before its target."""

    k: int = 1


class TopK(ClassNumbers):
    """How many rows have their target among the k largest logits, and how many rows there are.

    z [..., C], target i32[...] -> i64[], i64[]. A class comes before the target if its logit is
    larger, or equal and its number smaller, so that k = 1 is the accuracy of argmax. A row with a
    NaN counts as wrong.
    """

    name, kind, totals, Attrs = "top_k", "row", True, TopKAttrs
    operands, results = ("z", "target"), ("correct", "count")

    def infer(self, attrs: TopKAttrs, z: TensorType, target: TensorType) -> tuple[TensorType, ...]:
        check_classes(self.name, z, target)
        if not 1 <= attrs.k <= z.shape[-1]:
            raise ShapeError(f"top_k: k = {attrs.k}, but {z} has {z.shape[-1]} classes")
        return (TensorType("i64", ()), TensorType("i64", ()))

    def reference(
        self, attrs: TopKAttrs, z: np.ndarray, target: np.ndarray
    ) -> tuple[np.ndarray, ...]:
        import numpy as np

        own = np.take_along_axis(z, target[..., None].astype(np.int64), -1)
        earlier = np.arange(z.shape[-1]) < target[..., None]
        before = ((z > own) | ((z == own) & earlier)).sum(-1)
        correct = (before < attrs.k) & ~np.isnan(z).any(-1)
        return (np.asarray(correct.sum(), np.int64), np.asarray(correct.size, np.int64))

    def samples(self) -> tuple[Sample, ...]:
        def sample(shape: tuple[int, ...], k: int) -> Sample:
            z, rows = f32(*shape), i32(*shape[:-1])
            return Sample((Draw(z), Draw(rows, "index", shape[-1])), {"k": k}, ())

        return tuple(
            sample(s, k) for s, k in (((1, 1), 1), ((100, 10), 1), ((33, 17), 5), ((2, 3, 7), 2))
        )

    def bad_samples(self) -> tuple[BadSample, ...]:
        z, rows = f32(4, 10), i32(4)
        return (BadSample((z, rows), "has 10 classes", {"k": 11}),)
