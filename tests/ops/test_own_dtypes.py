"""16-bit floats in kernels of one's own: the macros for rows take them, what reads their bits as
numbers is refused; and kernels of noeira's that are written in these macros.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
from sweep import assert_agrees, sample_case
from sweep_units import C_SPLIT, CUDA, CUDA_TURNS, C, Variant, all_ways, built

from noeira.codegen.kernel import kernel_text
from noeira.codegen.stored import is_raw
from noeira.codegen.target import Target
from noeira.codegen.targets import target_named
from noeira.errors import DtypeError, VerifyError
from noeira.ir.op import op
from noeira.ir.plan import Call, Stage
from noeira.ir.samples import Draw, Sample, drawn, f32, i32
from noeira.ir.types import TensorType

Define = Callable[[str], ModuleType]
OWN = """
from noeira.ir.op import Op

class Doubled(Op):
    name, kind, operands = "doubled", "row", ("x",)
    looks_twice = streams = True

    def infer(self, attrs, x):
        return (x,)

    def reference(self, attrs, x):
        return (x + x / 2 + x.sum(-1, keepdims=True),)
"""
WORDS = """{% from "rows.j2" import each_row, row_sums, row_results %}
{% set t = k.view.dtype %}
{% call(k) each_row(k, ["x"]) %}
{% call(sum) row_sums(k, ["total"], ["x"]) %}
    {{ sum.total }} += x;
{% endcall %}
    {{ row_results(k, ["x"], {"y": "x + x / set_%s(2) + total" % t}) }}
{% endcall %}
"""
RAW = """{% from "macros.LANGUAGE.j2" import function %}
{% call function(k, k.functions[0]) %}
    {{ k.result.y }}[0] = {{ k.operand.x }}[0] * 2;
{% endcall %}
"""
VARIANTS = (C, C_SPLIT, CUDA, CUDA_TURNS)
TARGETS = {name: target_named(name) for name in ("c avx2", "cuda sm_80")}
SHAPES = ((9, 10), (3, 261), (1, 1), (2, 2049))


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_the_macros_for_rows_take_floats_of_16_bits(
    define: Define, tmp_path: Path, variant: Variant
) -> None:
    define(OWN)
    (tmp_path / "doubled.j2").write_text(WORDS)
    types = [TensorType(dtype, shape) for dtype in ("bf16", "f16", "f64") for shape in SHAPES]
    cases = [sample_case(op("doubled"), Sample((Draw(type),))) for type in types]
    library = built(cases, variant)
    for case in cases:
        arrays = case.arrays()
        assert_agrees(case, all_ways(library, case, arrays), arrays, factor=50)


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
@pytest.mark.parametrize("dtype", ["bf16", "f16"])
def test_bits_are_no_numbers(define: Define, tmp_path: Path, target: Target, dtype: str) -> None:
    define(OWN)
    for ending in ("c", "cu"):
        (tmp_path / f"doubled.{ending}.j2").write_text(RAW.replace("LANGUAGE", ending))
    for stored in ("f32", dtype):
        node = sample_case(op("doubled"), Sample((Draw(TensorType(stored, (4, 3))),))).node
        call = Call(node, target.choose(node))
        if stored == "f32":
            assert kernel_text(call, target, "k")
        else:
            said = rf"doubled has no kernel for {dtype} in C.*: it has f32, f64; .*widen_{dtype}"
            with pytest.raises(DtypeError, match=said):
                kernel_text(call, target, "k")


USES = {
    "widen_bf16(a0[row * 3 + a])": False,
    "load_bf16_part(a0 + index, n)": False,
    "load_bf16_f64(a0)": False,
    "stream_bf16(a0 + index, v)": False,
    "a0[lane ? row : 0] = narrow_bf16(v)": False,
    "unsigned short *a0 = (unsigned short *)workspace": False,
    "(void)a0;": False,
    "a0[row] = v": True,
    "float v = a0[row]": True,
    "load_f32(a0 + index)": True,
    "widen_f16(a0[row])": True,
    "a0[row] = a0[i] = narrow_bf16(v)": True,
    "widen_bf16(a0[i]) + a0[i]": True,
}


@pytest.mark.parametrize(("text", "raw"), USES.items(), ids=USES)
def test_uses_of_16_bits(text: str, raw: bool) -> None:
    assert is_raw(text, "a0", "bf16") == raw


def test_an_op_says_how_its_kernel_looks_at_rows(define: Define, tmp_path: Path) -> None:
    define(OWN)
    define(OWN.replace("Doubled", "Once").replace("doubled", "once").replace("True", "False"))
    (tmp_path / "doubled.j2").write_text(
        WORDS.replace('["x"]) %}\n{% call(sum)', "[]) %}\n{% call(sum)")
    )
    c, cuda = TARGETS.values()
    large = drawn((4, 4100))
    twice, once = (sample_case(op(name), large).node for name in ("doubled", "once"))
    options = [dict(cuda.choose(node).stages[0].options) for node in (twice, once)]
    assert options[0].pop("held") > 0 and options[0] == options[1]
    with pytest.raises(VerifyError, match=r"line 3: .*name the operands in each_row"):
        kernel_text(Call(twice, cuda.choose(twice)), cuda, "k")
    held = Stage("once", (*options[1].items(), ("held", 8)))
    stream = Stage("once", (("split", True), ("stream", True)))
    for target, stage, said in (
        (cuda, held, "held must be 0"),
        (c, stream, "stream must be false"),
    ):
        with pytest.raises(VerifyError, match=said):
            target.completed(once, (stage,))
    huge = (sample_case(op(name), drawn((1 << 12, 1 << 12))).node for name in ("doubled", "once"))
    assert ["stream" in dict(c.choose(node).stages[0].options) for node in huge] == [True, False]


# Of losses, whose numbers of rows are f32.
MIXED = {
    "soft_cross_entropy_grad": lambda z: (z, z, f32(z.shape[0]), f32()),
    "cross_entropy_grad": lambda z: (z, i32(z.shape[0]), f32(z.shape[0]), f32()),
}


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
@pytest.mark.parametrize("name", MIXED)
def test_gradients_of_losses_of_16_bits(name: str, variant: Variant) -> None:
    types = [MIXED[name](TensorType(dtype, s)) for dtype in ("bf16", "f16") for s in SHAPES[:3]]
    draws = [tuple(Draw(t, "normal" if t.is_float else "index", 1) for t in four) for four in types]
    cases = [sample_case(op(name), Sample(four)) for four in draws]
    if name == "cross_entropy_grad" and variant.target == "c":
        with pytest.raises(DtypeError, match="no kernel for bf16"):
            built(cases, variant)
        return
    library = built(cases, variant)
    for case in cases:
        arrays = case.arrays()
        assert_agrees(case, all_ways(library, case, arrays), arrays, factor=50)
