"""Numbers of all rows by ops of one's own: rows of 16 bits are added up in f32."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
from sweep import assert_agrees, sample_case
from sweep_units import C_SPLIT, CUDA, CUDA_TURNS, C, Variant, all_ways, built

from noeira.ir.op import op
from noeira.ir.samples import Draw, Sample
from noeira.ir.types import TensorType

OWN = """
from noeira.codegen.c import row_total as c
from noeira.codegen.cuda import row_total as cuda
from noeira.ir.checks import check_rows
from noeira.ir.op import Op
from noeira.ir.types import FLOATS, TensorType, computed

class RowSquares(Op):
    name, kind, totals, operands, results = "row_squares", "row", True, ("x",), ("loss",)

    def infer(self, attrs, x):
        check_rows(self.name, x)
        return (TensorType(DTYPE, ()),)

    def reference(self, attrs, x):
        return ((x * x).sum(),)

class C(c.RowTotal):
    stem, dtypes = "row_squares", frozenset(FLOATS)

class Cuda(cuda.RowTotal):
    stem, dtypes = "row_squares", frozenset(FLOATS)
"""
TEMPLATE = """{% from "row_total.j2" import each_row_totalled, row_term %}
{% from "rows.j2" import row_sums %}
{% call each_row_totalled(k, "loss", "") %}
{% call(sum) row_sums(k, ["squares"], ["x"], last=true) %}
    {{ sum.squares }} += x * x;
{% endcall %}
    {{ row_term("squares") }}
{% endcall %}
"""
SHAPES = ((300, 40), (1, 1), (3, 5), (7, 4100))


@pytest.mark.parametrize("variant", [C, C_SPLIT, CUDA, CUDA_TURNS], ids=str)
@pytest.mark.parametrize("result", ["computed(x.dtype)", "x.dtype"], ids=["wide", "rounded"])
def test_rows_of_16_bits_are_added_up_in_f32(
    tmp_path: Path, define: Callable[[str], ModuleType], variant: Variant, result: str
) -> None:
    define(OWN.replace("DTYPE", result))
    (tmp_path / "row_squares.j2").write_text(TEMPLATE)
    types = [TensorType(dtype, shape) for dtype in ("bf16", "f16", "f32") for shape in SHAPES]
    cases = [sample_case(op("row_squares"), Sample((Draw(type),))) for type in types]
    library = built(cases, variant)
    for case in cases:
        arrays = case.arrays()
        assert_agrees(case, all_ways(library, case, arrays), arrays)
