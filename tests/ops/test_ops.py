"""Sweeps over every op: samples, shape rules, and the operands that they refuse."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from samples import drawn
from swept_ops import each_op, every_op

from noeira.errors import DtypeError, ShapeError
from noeira.ir.arrays import dtype_name
from noeira.ir.builder import Builder
from noeira.ir.graph import Value
from noeira.ir.op import Op
from noeira.ir.samples import BadSample, f32


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
        types = rule.types(attrs, [draw.type for draw in sample.operands])
        results = rule.reference(attrs, *rule.arguments(attrs, arrays))
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
        rule.types(rule.Attrs(**bad.attrs), bad.operands)


@each_op(every_op())
def test_an_axis_without_elements_is_refused_in_one_way(rule: Op) -> None:
    for sample in rule.samples()[:1]:
        types = [draw.type for draw in sample.operands]
        for place, type in enumerate(types):
            for axis in range(len(type.shape)):
                shape = (*type.shape[:axis], 0, *type.shape[axis + 1 :])
                empty = [*types[:place], replace(type, shape=shape), *types[place + 1 :]]
                message = f"{rule.name}: an operand is {empty[place]}, which has an empty axis"
                with pytest.raises(ShapeError, match=re.escape(message)):
                    rule.types(rule.Attrs(**sample.attrs), empty)


def test_no_op_makes_an_axis_without_elements() -> None:
    with pytest.raises(
        ShapeError, match=r"broadcast: its result is f32\[0, 3\], which has an empt"
    ):
        Builder("test").emit("broadcast", Value("x", f32(1, 3)), shape=(0, 3))
