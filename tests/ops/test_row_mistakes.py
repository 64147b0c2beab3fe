"""What is said to a kernel over rows that is not right: results that are not stored or do not fit,
names that are taken.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from needs import needs_compiler, needs_cxx

import noeira
from noeira.codegen.c.isa import AVX2
from noeira.codegen.c.target import CTarget
from noeira.codegen.cuda.arch import arch
from noeira.codegen.cuda.target import CudaTarget
from noeira.codegen.kernel import kernel_text
from noeira.codegen.target import Target
from noeira.errors import VerifyError
from noeira.ir.builder import Builder
from noeira.ir.plan import Call
from noeira.ir.types import TensorType
from noeira.nn import Fused, Tanh

SUMMED = """
from noeira.ir.graph import Attrs
from noeira.ir.op import Op
from noeira.ir.types import TensorType
from noeira.nn import Module

class Summed(Op):
    name, kind, operands, results = "summed", "row", ("x",), ("", "total")
    takes = frozenset({"tail"})

    def infer(self, attrs, x):
        return x, TensorType(x.dtype, x.shape[:-1])

    def reference(self, attrs, x):
        return x * 2, x.sum(-1)

class Layer(Module):
    signature = "(*, D) -> (*, D)"

    @classmethod
    def trace(cls, scope, x):
        return scope.emit("summed", x)[0]
"""
TEMPLATE = """{# Rows doubled, and their sums. #}
{% from "rows.j2" import each_row, row_sums, row_number, row_results %}
{% call(k) each_row(k, ["x"]) %}
{% call(sum) row_sums(k, ["total"], ["x"]) %}
    {{ sum.total }} += x;
{% endcall %}
    {{ row_number(k, "total", "total") }}
    {{ row_results(k, ["x"], {"y": "x + x"}) }}
{% endcall %}
"""
Define = Callable[[str], ModuleType]
TARGETS = pytest.mark.parametrize(
    "target", [CTarget(AVX2), CudaTarget(arch("sm_80"))], ids=["c", "cuda"]
)
STORE = '{{ row_number(k, "total", "total") }}'
RESULTS = '{{ row_results(k, ["x"], {"y": "x + x"}) }}'
# What stands in the template, what stands there instead, and what is said.
WRONG = (
    (STORE, "", "the template of summed never stores its result total"),
    (RESULTS, "", "the template of summed never stores its result y"),
    ('"x + x"}', '"x + x", "total": "total"}', "total has 4 elements, not 12 (there are 4 rows of"),
    (
        'k, "total"',
        'k, "y"',
        "y has 12 elements, not 4 (there are 4 rows of 3): row_results",
    ),
    ('k, "total"', 'k, "sums"', "there is no result sums; there are y, total"),
    ('{"y"', '{"z"', "there is no result z; there are y, total"),
    ('k, ["x"], {', 'k, ["w"], {', "there is no operand w; there are x"),
    ('["total"]', '["index"]', "index is the name of what loops over rows have of their own"),
    ('["total"]', '["x"]', "x is the name of the operand: take another"),
)


def text_of(target: Target) -> str:
    """The text of the op's kernel."""
    builder = Builder("test")
    builder.emit("summed", builder.input("x", TensorType("f32", (4, 3))))
    node = builder.nodes[0]
    return kernel_text(Call(node, target.choose(node)), target, "k")


@TARGETS
@pytest.mark.parametrize(("right", "wrong", "said"), WRONG, ids=[said for *_, said in WRONG])
def test_what_is_wrong_with_a_template_over_rows(
    define: Define, tmp_path: Path, target: Target, right: str, wrong: str, said: str
) -> None:
    define(SUMMED)
    assert right in TEMPLATE
    (tmp_path / "summed.j2").write_text(TEMPLATE.replace(right, wrong, 1))
    with pytest.raises(VerifyError, match=re.escape(said)):
        text_of(target)


@TARGETS
def test_a_number_may_be_an_expression(define: Define, tmp_path: Path, target: Target) -> None:
    define(SUMMED)
    (tmp_path / "summed.j2").write_text(TEMPLATE.replace('"total") }}', '"total + total") }}'))
    assert "= (total + total)" in text_of(target)


def test_where_a_template_over_rows_may_be(define: Define) -> None:
    define(SUMMED)
    with pytest.raises(VerifyError, match=r"summed.c.j2, or summed.j2 for all languages"):
        text_of(CTarget(AVX2))


@needs_compiler
@needs_cxx
@pytest.mark.parametrize("target", ["cpu", "cuda-cpu"])
def test_a_number_that_nobody_wants(define: Define, tmp_path: Path, target: str) -> None:
    layer = define(SUMMED).Layer
    (tmp_path / "summed.j2").write_text(TEMPLATE)
    x = np.ones((2, 8), "f4")
    found = noeira.compile(Fused[layer, Tanh], batch=2, input=(8,), target=target).forward(x)
    np.testing.assert_allclose(found, np.tanh(x * 2), rtol=1e-6)
