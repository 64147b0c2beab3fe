"""The order of a data set's samples in an epoch: `shuffle`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from noeira.errors import ShapeError
from noeira.ir import graph
from noeira.ir.checks import expect
from noeira.ir.op import Limits, Op
from noeira.ir.random import ORDER_STREAM
from noeira.ir.samples import BadSample, Draw, Sample, i32
from noeira.ir.states import COUNTER
from noeira.ir.types import TensorType, Types

if TYPE_CHECKING:
    import numpy as np

# Kernels number the samples, and twice as many, in 32 bits.
MOST_SAMPLES = 2**29


@dataclass(frozen=True)
class ShuffleAttrs(graph.Attrs):
    """samples: of the data set."""

    samples: int = 1

    @property
    def stream(self) -> int:
        """Which of the streams of a seed the random bits are from."""
        return ORDER_STREAM


class Shuffle(Op):
    """The numbers 0, …, samples - 1 in random order: sorted by 64 random bits each, those of Philox
    for the number, the epoch as the tick, and the seed. Equal bits go by number.

    seed i64[] of 32 bits, epoch i64[] -> i32[samples]
    """

    name, Attrs, operands = "shuffle", ShuffleAttrs, ("seed", "epoch")

    def infer(
        self, attrs: ShuffleAttrs, seed: TensorType, epoch: TensorType
    ) -> tuple[TensorType, ...]:
        expect("shuffle", "seed", seed, COUNTER)
        expect("shuffle", "epoch", epoch, COUNTER)
        if not 0 < attrs.samples <= MOST_SAMPLES:
            raise ShapeError(f"shuffle: {attrs.samples} samples: from 1 to {MOST_SAMPLES} can be")
        return (TensorType("i32", (attrs.samples,)),)

    def reference(
        self, attrs: ShuffleAttrs, seed: np.ndarray, epoch: np.ndarray
    ) -> tuple[np.ndarray, ...]:
        from noeira.ir.random import permutation

        return (permutation(int(seed), attrs.stream, attrs.samples, tick=int(epoch)),)

    def result_limits(self, attrs: ShuffleAttrs, operands: Types, limits: Limits) -> Limits:
        return (attrs.samples,)

    def samples(self) -> tuple[Sample, ...]:
        operands = Draw(COUNTER, "index", 1000), Draw(COUNTER, "index", 10)
        sizes = (1, 2, 31, 1000, 1024, 2047, 5000)
        return tuple(Sample(operands, {"samples": n}, ()) for n in sizes)

    def bad_samples(self) -> tuple[BadSample, ...]:
        return (
            BadSample((COUNTER, COUNTER), "0 samples", {"samples": 0}),
            BadSample((i32(), COUNTER), "must be i64[]"),
        )
