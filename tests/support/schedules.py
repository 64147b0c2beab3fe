"""What tests of schedules share: kernels of many schedules in one unit, and the rates of a training
by them or by the reference.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from needs import needs_compiler
from sweep import Case, sample_case
from sweep_units import C_SPLIT, CUDA_TURNS, Library, Variant, built

from noeira.ir.op import op
from noeira.ir.samples import Draw, Sample
from noeira.ir.states import COUNTER
from noeira.ir.types import TensorType

# The learning rate, a number of either dtype; steps of a training; updates of an epoch.
LR, STEPS, EPOCH_STEPS = 0.75 / 1024, 45, 4
DTYPES = {"f32": np.float32, "f64": np.float64}
# By what rates are reckoned: None is the reference.
BY = [
    pytest.param(None, id="reference"),
    *(pytest.param(v, id=str(v), marks=needs_compiler) for v in (C_SPLIT, CUDA_TURNS)),
]
Written = tuple[str, Mapping[str, Any]]


@dataclass
class Schedules:
    """Schedules, each the name of an op and its attributes, in both dtypes, by steps, and some by
    epochs; each variant is built when it is first asked for.
    """

    written: Sequence[Written]
    by_epoch: Sequence[Written] = ()
    libraries: dict[Variant, Library] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.cases = {
            (name, str(attrs), dtype, by_epoch): case_of(name, attrs, dtype, by_epoch)
            for by_epoch, written in ((False, self.written), (True, self.by_epoch))
            for name, attrs in written
            for dtype in DTYPES
        }

    def rate(
        self, variant: Variant | None, written: Written, dtype: str, step: int, *epoch_steps: int
    ) -> np.ndarray:
        """The rate after so many steps."""
        name, attrs = written
        case = self.cases[name, str(attrs), dtype, bool(epoch_steps)]
        arrays = [np.asarray(LR, DTYPES[dtype]), *map(np.asarray, (step, *epoch_steps))]
        if variant is None:
            return op(name).reference(case.node.attrs, *arrays)[0]
        if variant not in self.libraries:
            self.libraries[variant] = built(list(self.cases.values()), variant)
        return self.libraries[variant].run(case, arrays)[0]

    def rates(
        self, variant: Variant | None, written: Written, dtype: str, by_epoch: bool = False
    ) -> np.ndarray:
        """The rates of all STEPS."""
        unit = (EPOCH_STEPS,) * by_epoch
        return np.array([self.rate(variant, written, dtype, n, *unit) for n in range(STEPS)])


def case_of(name: str, attrs: Mapping[str, Any], dtype: str, by_epoch: bool) -> Case:
    """A node of a schedule."""
    numbers = (Draw(COUNTER),) * (2 if by_epoch else 1)
    draws = Draw(TensorType(dtype, ())), *numbers
    return sample_case(op(name), Sample(draws, dict(attrs), ()))


def assert_close(got: np.ndarray, expected: np.ndarray) -> None:
    """Within an ulp in f32, in f64 to within 1e-12; a rate of almost 0 to within 1e-15 of lr."""
    limit = np.abs(expected) * 1e-12
    if got.dtype == np.float32:
        limit = np.spacing(np.abs(expected).astype(np.float32)).astype(np.float64)
    distance = np.abs(got.astype(np.float64) - expected)
    assert (distance <= limit + 1e-15 * LR).all(), (got, expected)
