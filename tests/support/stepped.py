"""Updates of flat states in tests: a few kinds as cases, run step after step on each target."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
from samples import of_dtype
from sweep import Case, sample_case
from sweep_units import C_SPLIT, CUDA_TURNS, Library, built

from noeira.ir.op import op
from noeira.ir.ops.flat_update import FlatUpdate

# The reference, and kernels that threads share, or that take turns.
TARGETS = {"reference": None, "cpu": C_SPLIT, "cuda-cpu": CUDA_TURNS}
DTYPES = {"f32": np.float32, "f64": np.float64}


def update_case(name: str, size: int, dtype: str, attrs: Mapping[str, Any], factors: int) -> Case:
    """An update of so many elements; factors: how many numbers clip gradients, 0 for none."""
    rule = op(name)
    assert isinstance(rule, FlatUpdate)
    sample = rule.sample(size, factors=(factors,) if factors else None, **attrs)
    (made,) = of_dtype(rule, (sample,), dtype) if dtype != "f32" else (sample,)
    return sample_case(rule, made)


class Stepped:
    """Cases built once for all targets: `run` is one call of a kernel."""

    def __init__(self, cases: Sequence[Case]) -> None:
        self.cases = tuple(cases)
        self.library = cache(self._library)

    def _library(self, target: str) -> Library | None:
        variant = TARGETS[target]
        return built(self.cases, variant) if variant is not None else None

    def run(
        self, target: str, case: Case, given: Mapping[str, np.ndarray]
    ) -> dict[str, np.ndarray]:
        """The results of a case by name, given its operands by name."""
        made = self.results(target, case, [given[name] for name in case.node.operands])
        return dict(zip(case.node.results, made, strict=True))

    def results(
        self, target: str, case: Case, arrays: Sequence[np.ndarray]
    ) -> Sequence[np.ndarray]:
        """The results of a case in order, given its operands in order."""
        node, library = case.node, self.library(target)
        if library is not None:
            return library.run(case, arrays)
        return node.op.reference(node.attrs, *node.arguments(arrays))
