"""Kernel templates of ops defined outside noeira, and what is said of a line that is not right."""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from noeira.codegen.c import CTarget
from noeira.codegen.kernels import kernel_text
from noeira.codegen.target import AVX2
from noeira.errors import VerifyError
from noeira.ir.graph import Builder
from noeira.ir.op import OPS
from noeira.ir.plan import Call
from noeira.ir.types import TensorType

OP = """
from noeira.ir.op import Op

class Turned(Op):
    name, kind, operands = "turned", "row", ("x",)

    def infer(self, attrs, x):
        return (x,)
"""
TEMPLATE = """{# Each row backwards. #}
{% from "macros.c.j2" import function, share %}
{% set g, f = k.anchor, k.choice.functions[0] %}
{% call function(k, f) %}
    {{ share(g.rows, f) }}
    for (long row = first; row < last; row++)
        for (long i = 0; i < {{ g.columns }}; i++)
            y0[row * {{ g.columns }} + i] = a0[row * {{ g.columns }} + {{ g.columns - 1 }} - i];
{% endcall %}
"""
GRID = "; g has blocks, bounds, bytes, chunks, columns, ctype, dtype, extent, full, inputs"
# What stands in the template, what stands there instead, and what is said.
WRONG = (
    ("share(g.rows", "share(g.rowss", f"line 5: 'rowss' is not there{GRID}"),
    ("< {{ g.columns", "< {{ g.width", f"line 7: 'width' is not there{GRID}"),
    ("g.rows", "k.attrs.rows", "line 5: 'rows' is not there"),
    ("g.rows", "height", "line 5: 'height' is not there"),
    ("g.rows", "g.rows // 0", "line 5: integer division or modulo by zero"),
    ("share(g.rows, f)", "share(g.rows)", "line 5: parameter 'f' was not provided"),
    ("share(g.rows, f)", "share(g.rows, f, 1)", "line 5: macro 'share' takes not more than 2"),
    ("g.rows, f)", "g.rows, f", "line 5: unexpected '}', expected ')'"),
    ("{% endcall %}", "", "line 8: Unexpected end of template. Jinja was looking for"),
    ("g.rows", "g.rows | whole", "line 5: No filter named 'whole'"),
    ("macros.c.j2", "macro.c.j2", "line 2: there is no template macro.c.j2"),
    ("function, share", "function, shares", "line 5: 'share' is not there"),
)


@pytest.fixture
def call(tmp_path: Path) -> Iterator[Call]:
    """A call of the op, which is defined in a file in `tmp_path`."""
    file = tmp_path / "turned_op.py"
    file.write_text(OP)
    spec = importlib.util.spec_from_file_location("turned_op", file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["turned_op"] = module
    spec.loader.exec_module(module)
    builder = Builder("test")
    builder.emit("turned", builder.input("x", TensorType("f32", (4, 3))))
    node = builder.nodes[0]
    yield Call(node, CTarget(AVX2).choose(node))
    del OPS["turned"], sys.modules["turned_op"]


def test_a_template_is_looked_for_beside_its_op(call: Call, tmp_path: Path) -> None:
    template = tmp_path / "turned.c.j2"
    with pytest.raises(VerifyError, match=re.escape(f"has no kernel in C: write {template}")):
        kernel_text(call, CTarget(AVX2), "turned")
    template.write_text(TEMPLATE)
    assert "for (long i = 0; i < 3; i++)" in kernel_text(call, CTarget(AVX2), "turned")


@pytest.mark.parametrize(("right", "wrong", "said"), WRONG, ids=[said for *_, said in WRONG])
def test_what_is_wrong_with_a_template(
    call: Call, tmp_path: Path, right: str, wrong: str, said: str
) -> None:
    assert right in TEMPLATE
    (tmp_path / "turned.c.j2").write_text(TEMPLATE.replace(right, wrong, 1))
    with pytest.raises(VerifyError, match=re.escape(f"the template turned.c.j2, {said}")):
        kernel_text(call, CTarget(AVX2), "turned")


def test_what_is_wrong_with_a_template_of_ones_own_that_another_includes(
    call: Call, tmp_path: Path
) -> None:
    (tmp_path / "turned.c.j2").write_text('{% from "part.c.j2" import part %}\n' + TEMPLATE)
    (tmp_path / "part.c.j2").write_text("\n{% macro part() %}\n{% if %}\n{% endmacro %}\n")
    with pytest.raises(
        VerifyError, match=r"the template part.c.j2, line 3: Expected an expression"
    ):
        kernel_text(call, CTarget(AVX2), "turned")
