"""How the C target runs a node: choices that a person can edit, kernels equal by their text."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from c_sweep import CKernels, compiler_or_skip, for_isa
from sweep import assert_agrees, sample_case

from noeira.codegen.c.isa import AVX2, AVX512, ISA, NEON, PLAIN
from noeira.codegen.c.target import CTarget
from noeira.codegen.kernel import kernel_text
from noeira.codegen.layout import laid_out
from noeira.codegen.sharing import text_of
from noeira.codegen.view import function_names
from noeira.errors import VerifyError
from noeira.ir.builder import Builder
from noeira.ir.fused import close
from noeira.ir.graph import Node
from noeira.ir.op import op
from noeira.ir.plan import Call, Choice, Stage
from noeira.ir.samples import Draw, Sample
from noeira.ir.types import TensorType
from noeira.runtime.c.compiler import find_compiler

TARGET = CTarget(AVX512)


def f32(*shape: int) -> TensorType:
    return TensorType("f32", shape)


def product(m: int, k: int, n: int, **attrs: bool) -> Node:
    """A matrix product as a node."""
    b = (n, k) if attrs.get("transpose_b") else (k, n)
    return sample_case(op("matmul"), Sample((Draw(f32(m, k)), Draw(f32(*b))), attrs)).node


@pytest.mark.parametrize("isa", [AVX512, AVX2, NEON, PLAIN], ids=lambda isa: isa.name)
def test_choice_is_the_same_every_time(isa: ISA) -> None:
    target, node = CTarget(isa), product(100, 784, 256)
    assert target.name == f"c {isa.name}"
    assert target.choose(node) == target.choose(node)
    (stage,) = target.choose(node).stages
    assert {key for key, _ in stage.options} >= {"row_tiles", "panels"}


def test_options_that_are_as_usual_are_not_written() -> None:
    target = CTarget(AVX512)
    assert str(target.choose(product(64, 64, 64)).stages[0]) == (
        "gemm{row_tiles = 8, panels = 2, by_rows = true, split = true}"
    )
    assert str(target.choose(product(1, 64, 64)).stages[0]) == ("gemm{row_tiles = 1, panels = 2}")
    tall = target.choose(product(16, 60000, 16))
    assert [stage.name for stage in tall.stages] == ["gemm", "total"]
    assert dict(tall.stages[0].options)["apart"]


def test_edited_cut_gives_the_same_bits() -> None:
    compiler = find_compiler()
    if compiler is None:
        pytest.skip("there is no C compiler")
    target = CTarget(compiler.isa)
    case = sample_case(op("matmul"), Sample((Draw(f32(50, 90)), Draw(f32(90, 70)))))
    options = [
        (5, 2, 1, 1, False, False, True),
        (25, 1, 1, 1, True, False, False),
        (50, 1, 3, 1, False, False, True),
        (17, 2, 90, 2, True, False, True),
    ]
    names = ("row_tiles", "panels", "blocks", "group", "by_rows", "apart", "pack_b")
    choices = [
        Choice((Stage("gemm", tuple(zip(names, values, strict=True))),)) for values in options
    ]
    cases = tuple(replace(case, label=str(values)) for values in options)
    library = CKernels(target, cases, tuple(choices)).built(compiler)
    arrays = case.arrays()
    results = [library.run(each, arrays, (2, False))[0].tobytes() for each in cases]
    assert set(results) == {results[0]}
    assert np.isfinite(np.frombuffer(results[0], "f4")).all()


def test_parts_of_portable_vectors_touch_no_memory_beyond_them() -> None:
    """Memory behind each operand cannot be read, and gcc knows how many lanes a part has."""
    target = CTarget(PLAIN)
    samples = [Sample((Draw(f32(16 + part)), Draw(f32(1)))) for part in (1, 2, 3)]
    cases = [sample_case(op("multiply"), sample) for sample in samples]
    library = CKernels.of(target, cases).built(for_isa(compiler_or_skip(), PLAIN))
    for case in cases:
        arrays = case.arrays()
        assert_agrees(case, library.run(case, arrays), arrays)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"row_tiles": 0}, "row_tiles must be a whole number of at least 1"),
        ({"row_tiles": 21}, "row_tiles must be a whole number from 1 to 20"),
        ({"panels": 4}, "panels must be a whole number from 1 to 3"),
        ({"panels": 3.5}, "panels must be a whole number of at least 1"),
        ({"blocks": 31}, "blocks must be a whole number from 1 to 30"),
        ({"pack_b": False}, "pack_b must be true, since b is read transposed"),
        ({"apart": True, "blocks": 1}, "apart needs blocks > 1, group = 1 and by_rows = false"),
    ],
)
def test_edited_cut_that_does_not_fit_is_refused(options: dict[str, object], message: str) -> None:
    node = product(20, 30, 40, transpose_b=True)
    (stage,) = TARGET.choose(node).stages
    edited = Stage("gemm", tuple((dict(stage.options) | options).items()))
    with pytest.raises(VerifyError, match=message):
        kernel_text(Call(node, Choice((edited,))), TARGET, "k")


def test_a_copy_that_has_no_room_on_a_stack_is_neither_tried_nor_taken() -> None:
    node = product(8, 50_000, 64, transpose_b=True)
    for choice in (TARGET.choose(node), *TARGET.candidates(node)):
        kernel_text(Call(node, choice), TARGET, "k")
    whole = Choice((Stage("gemm", (("row_tiles", 2), ("panels", 1), ("pack_b", True))),))
    with pytest.raises(VerifyError, match="pack_b copies 12,800,000 bytes of b at a time"):
        kernel_text(Call(node, whole), TARGET, "k")


def test_zeros_of_either_sign_are_different_kernels() -> None:
    builder = Builder("zeros")
    x = builder.input("x", f32(4))
    for factor in (0.0, -0.0):
        builder.emit("scale", x, factor=factor)
    texts = {text_of(Call(n, TARGET.choose(n)), TARGET) for n in builder.nodes}
    assert len(texts) == 2


def test_equal_kernels_have_equal_texts() -> None:
    builder = Builder("twice")
    for name in ("first", "second"):
        x, y = (builder.input(f"{name}.{i}", f32(5, 19)) for i in (1, 2))
        builder.emit("add", x, y)
    one, two = (kernel_text(Call(n, TARGET.choose(n)), TARGET, "k") for n in builder.nodes)
    assert one == two


def test_several_stages_are_several_functions() -> None:
    node = sample_case(op("sum"), Sample((Draw(f32(5000, 40)),), {"axes": (0,)})).node
    call = Call(node, TARGET.choose(node))
    assert function_names(call, "k") == ("k_chunks", "k_total")
    text = kernel_text(call, TARGET, "k")
    assert text.count("static NOINLINE void k_") == 2
    assert call.choice.workspace == 40 * 40 * 4


def test_kernel_with_two_anchors_is_refused() -> None:
    builder = Builder("two")
    x = builder.input("x", f32(4, 4))
    y = builder.emit("matmul", builder.emit("matmul", x, x), x)
    node = close(tuple(builder.nodes), {y.name}, builder.origin)
    with pytest.raises(VerifyError, match="matmul after matmul is a second contraction"):
        TARGET.choose(node)


def test_layout_follows_braces_and_governing_lines() -> None:
    text = """
    static void f(void) {
    // a comment

            if (a)
      for (;;)
    b();
        else {
    c();
        }
    }


    int x;
    """
    assert laid_out(text) == (
        "static void f(void) {\n"
        "    // a comment\n"
        "    if (a)\n"
        "        for (;;)\n"
        "            b();\n"
        "    else {\n"
        "        c();\n"
        "    }\n"
        "}\n"
        "\n"
        "int x;\n"
    )
