"""What sweeps hand to ops that say what becomes of infinities, NaN and ties."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
from samples import main_shape, stretched
from sweep import Case, sample_case

from noeira.ir.op import op
from noeira.ir.samples import Draw, Sample
from noeira.ir.types import TensorType

WIDTHS = (3, 10, 64, 257, 1031, 2048)
CUT_OFF = ("relu", "clamp")
LOGITS = ("softmax", "cross_entropy", "soft_cross_entropy", "top_k")
NUMBERS = np.array(
    [np.nan, np.inf, -np.inf, -0.0, 0.0, 0.5, 1.5, -1.5, 1e-42, 3e38] * 2 + [np.nan], "f4"
)


@cache
def special_cases(name: str) -> dict[int, Case]:
    """An op's cases of special values, by width: of rows of logits as many as fill any vector."""
    if name in CUT_OFF:
        size = NUMBERS.size
        return {size: sample_case(op(name), Sample((Draw(TensorType("f32", (size,))),)))}
    if name == "finite":
        return {1: sample_case(op(name), op(name).samples()[0])}
    return {width: logits(name, width) for width in WIDTHS} if name in LOGITS else {}


def logits(name: str, width: int) -> Case:
    """Rows of logits for an op, the first of its samples that it takes in that width."""
    rule = op(name)
    for sample in rule.samples():
        shape = main_shape(rule, sample)
        if len(shape) == 2 and shape[0] != shape[1]:
            lengths = {shape[0]: 30 if name == "cross_entropy" else 6, shape[1]: width}
            made = stretched(rule, sample, lengths)
            if made is not None:
                attrs = made.attrs | ({"k": 1} if name == "top_k" else {})
                return sample_case(rule, replace(made, attrs=attrs))
    raise AssertionError(f"{name} has no sample of rows of {width}")
