"""Units of C: what stands in them beside kernels."""

from __future__ import annotations

import pytest

from noeira.codegen.c.isa import AVX2
from noeira.codegen.c.target import CTarget
from noeira.ir.builder import Builder
from noeira.ir.types import TensorType
from noeira.planning.memory import make_plan
from noeira.runtime.build.cache import open_cache
from noeira.runtime.build.library import build_library
from noeira.runtime.c.builder import CBuilder
from noeira.runtime.c.compiler import find_compiler


def test_a_literal_of_a_type_of_two_words() -> None:
    """`long long` is the C type of an i64."""
    compiler = find_compiler()
    if compiler is None:
        pytest.skip("there is no C compiler")
    builder = Builder("numbers")
    seed = builder.emit("constant", value=3, dtype="i64")
    epoch = builder.input("epoch", TensorType("i64", ()))
    order = builder.emit("shuffle", seed, epoch, samples=5)
    target = CTarget(compiler.isa)
    plan = make_plan(builder.done((order,)), target.choose, target.name)
    source = target.render("numbers", [plan])
    assert "static const long long literal_0[1] = { 3ll };" in source.text
    build_library(source, CBuilder(compiler), open_cache())


@pytest.mark.parametrize(("rows", "calls", "patience"), [(50, 1, "PATIENCE"), (400, 3, "0")])
def test_threads_are_woken_at_once_for_what_takes_long(
    rows: int, calls: int, patience: str
) -> None:
    """At 20 GB/s: 8 bytes an element for each call, about 20 us of 50 rows and 490 us of 400."""
    builder = Builder("moved")
    value = builder.input("x", TensorType("f32", (rows, 1024)))
    for _ in range(calls):
        value = builder.emit("relu", value)
    target = CTarget(AVX2)
    plan = make_plan(builder.done((value,)), target.choose, target.name)
    text = target.render("moved", [plan]).text
    assert f"do_share, &job, {patience});" in text
