"""What updates and clipping cost over tables of ranges: elements in none are not touched."""

from __future__ import annotations

from typing import Any

import pytest

from noeira.ir.cost import Cost
from noeira.ir.layouts import Range
from noeira.ir.op import op
from noeira.ir.types import TensorType

FLAT, ONE, STEP, OK = (
    TensorType(dtype, shape)
    for dtype, shape in (("f32", (100,)), ("f32", ()), ("i64", ()), ("bool", ()))
)
SOME = (Range(3, 13), Range(40, 50, (("lr_factor", 0.5),)))
SCALARS = ONE.nbytes + STEP.nbytes + OK.nbytes


def test_an_update_costs_its_ranges():
    adam: Any = op("adam")
    types = (FLAT, FLAT, ONE, STEP, OK, FLAT, FLAT)
    every, some = (adam.cost(adam.Attrs(ranges=ranges), *types, None) for ranges in ((), SOME))
    assert every == Cost(every.flops, 4 * 400 + SCALARS, 3 * 400)
    assert some == Cost(every.flops // 5, 4 * 80 + SCALARS, 3 * 80)
    assert every.flops > 0 == every.flops % 100
    # A factor for each range is read as a whole.
    clipped = adam.cost(adam.Attrs(ranges=SOME), *types, TensorType("f32", (2,)))
    assert clipped.bytes_read == some.bytes_read + 8


@pytest.mark.parametrize(("ranges", "elements"), [((), 100), ((Range(3, 13), Range(40, 50)), 20)])
def test_adaptive_clipping_costs_its_ranges(ranges: tuple[Range, ...], elements: int):
    clip: Any = op("adaptive_clip")
    found = clip.cost(clip.Attrs(ranges=ranges), FLAT, FLAT)
    assert found == Cost(4 * elements, 8 * elements, 4 * max(1, len(ranges)))
