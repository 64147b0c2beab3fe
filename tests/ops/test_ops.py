"""Sweeps over every op: samples, shape rules, and the operands that they refuse."""

from __future__ import annotations

import re

import numpy as np
import pytest
from samples import drawn
from swept_ops import each_op, every_op

from noeira.errors import DtypeError, ShapeError
from noeira.ir.arrays import dtype_name
from noeira.ir.op import Op
from noeira.ir.samples import BadSample


def test_every_op_has_samples_and_operand_names() -> None:
    for rule in every_op():
        assert rule.samples(), f"{rule.name} has no samples"
        assert type(rule).__doc__ or ".d" in rule.name, f"{rule.name} has no formula"


@each_op(every_op())
def test_shape_rule_agrees_with_reference(rule: Op) -> None:
    for number, sample in enumerate(rule.samples()):
        random = np.random.default_rng(number)
        arrays = [np.asarray(drawn(draw, random)) for draw in sample.operands]
        attrs = rule.Attrs(**sample.attrs)
        types = rule.infer(attrs, *[draw.type for draw in sample.operands])
        results = rule.reference(attrs, *arrays)
        assert [t.shape for t in types] == [np.shape(r) for r in results], sample
        dtypes = [dtype_name(np.asarray(r).dtype) for r in results]
        assert [t.dtype for t in types] == dtypes, sample


BAD = [
    pytest.param(rule, bad, id=f"{rule.name}: {bad.message}", marks=pytest.mark.ops(rule.name))
    for rule in every_op()
    for bad in rule.bad_samples()
]


@pytest.mark.parametrize(("rule", "bad"), BAD)
def test_bad_operands_are_refused(rule: Op, bad: BadSample) -> None:
    with pytest.raises((ShapeError, DtypeError), match=re.escape(bad.message)):
        rule.infer(rule.Attrs(**bad.attrs), *bad.operands)
