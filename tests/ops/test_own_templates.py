"""Kernel templates of ops defined outside noeira, and what is said of a line that is not right."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

from noeira.codegen.c.isa import AVX2
from noeira.codegen.c.target import CTarget
from noeira.codegen.cuda.arch import arch
from noeira.codegen.cuda.target import CudaTarget
from noeira.codegen.kernel import kernel_text
from noeira.codegen.scratch import Room, bytes_of, scratch_arrays
from noeira.codegen.sharing import text_of
from noeira.codegen.target import Target
from noeira.errors import DtypeError, VerifyError
from noeira.ir.builder import Builder
from noeira.ir.fused import close
from noeira.ir.op import op
from noeira.ir.plan import Call, Stage
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
{% set g, f, x, y = k.view, k.functions[0], k.operand.x, k.result.y %}
{% call function(k, f) %}
    {{ share(g.rows, f) }}
    for (long row = first; row < last; row++)
        for (long i = 0; i < {{ g.columns }}; i++)
            {{ y }}[row * {{ g.columns }} + i] = {{ x }}[(row + 1) * {{ g.columns }} - 1 - i];
{% endcall %}
"""
GRID = (
    "; g has blocks, bytes, chunks, column_numbers, columns, ctype, dtype, full, grouped, joint, "
    "lane_bits"
)
C, CUDA = CTarget(AVX2), CudaTarget(arch("sm_80"))
# What stands in the template, what stands there instead, and what is said.
WRONG = (
    ("share(g.rows", "share(g.rowss", f"line 5: 'rowss' is not there{GRID}"),
    ("< {{ g.columns", "< {{ g.wide", f"line 7: 'wide' is not there{GRID}"),
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
    ("operand.x", "operand.weight", "line 8: 'weight' is not there; Operands has x"),
)


Define = Callable[[str], ModuleType]


def call_of(name: str, target: Target, *types: TensorType) -> Call:
    """A call of an op, as the target chooses to run it."""
    builder = Builder("test")
    builder.emit(name, *(builder.input(f"v{i}", type) for i, type in enumerate(types)))
    node = builder.nodes[0]
    return Call(node, target.choose(node))


@pytest.fixture
def call(define: Define) -> Call:
    """A call of the op, which is defined in a file in `tmp_path`."""
    define(OP)
    return call_of("turned", C, TensorType("f32", (4, 3)))


def test_a_template_is_looked_for_beside_its_op(call: Call, tmp_path: Path) -> None:
    template = tmp_path / "turned.c.j2"
    with pytest.raises(VerifyError, match=re.escape(f"has no kernel in C: write {template}")):
        kernel_text(call, C, "turned")
    template.write_text(TEMPLATE)
    assert "for (long i = 0; i < 3; i++)" in kernel_text(call, C, "turned")


def test_calls_of_a_unit_that_are_alike_are_rendered_once(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    template, rendered = tmp_path / "turned.c.j2", list[Call]()
    template.write_text(TEMPLATE)

    def counted(call: Call, target: Target, symbol: str) -> str:
        rendered.append(call)
        return kernel_text(call, target, symbol)

    monkeypatch.setattr("noeira.codegen.sharing.kernel_text", counted)
    known = dict[Hashable, str]()
    texts = {text_of(call, C, known) for _ in range(3)}
    assert len(texts) == len(rendered) == 1
    # In the next unit its template may be another.
    template.write_text(TEMPLATE.replace("- 1 - i", "- i - 1"))
    assert text_of(call, C, {}) not in texts


@pytest.mark.parametrize(("right", "wrong", "said"), WRONG, ids=[said for *_, said in WRONG])
def test_what_is_wrong_with_a_template(
    call: Call, tmp_path: Path, right: str, wrong: str, said: str
) -> None:
    assert right in TEMPLATE
    (tmp_path / "turned.c.j2").write_text(TEMPLATE.replace(right, wrong, 1))
    with pytest.raises(VerifyError, match=re.escape(f"the template turned.c.j2, {said}")):
        kernel_text(call, C, "turned")


def test_what_is_wrong_with_a_template_of_ones_own_that_another_includes(
    call: Call, tmp_path: Path
) -> None:
    (tmp_path / "turned.c.j2").write_text('{% from "part.c.j2" import part %}\n' + TEMPLATE)
    (tmp_path / "part.c.j2").write_text("\n{% macro part() %}\n{% if %}\n{% endmacro %}\n")
    with pytest.raises(
        VerifyError, match=r"the template part.c.j2, line 3: Expected an expression"
    ):
        kernel_text(call, C, "turned")


# Names of noeira's own templates: of what kernels share, of units, of preludes.
TAKEN = ("rows", "sums", "macros", "pool", "team", "held", "random", "vector", "unit", "entry")


@pytest.mark.parametrize("name", [*TAKEN, "gemm_tile", "log_sum_exp"])
@pytest.mark.parametrize(("target", "ending"), [(C, "c.j2"), (CUDA, "cu.j2")], ids=["c", "cuda"])
def test_an_op_of_ones_own_may_have_any_name(
    define: Define, tmp_path: Path, name: str, target: Target, ending: str
) -> None:
    define(OP.replace("turned", name))
    call = call_of(name, target, TensorType("f32", (4, 3)))
    with pytest.raises(VerifyError, match=re.escape(f"write {tmp_path / name}.{ending}")):
        kernel_text(call, target, "k")
    (tmp_path / f"{name}.{ending}").write_text("// my own {{ k.view.columns }}\n{{ k.result.y }};")
    assert kernel_text(call, target, "k") == "// my own 3\ny0;\n"
    # Those of noeira find their own helpers all the same.
    for other in ("cross_entropy", "softmax"):
        types = [TensorType("f32", (40, 300)), TensorType("i32", (40,))]
        text = kernel_text(call_of(other, target, *types[: len(op(other).operands)]), target, "k")
        assert "my own" not in text and "exp_f32" in text


KERNEL = (
    OP
    + """
    takes = frozenset({"tail"})

from dataclasses import dataclass
from noeira.codegen.anchor import rows_operand
from noeira.codegen.c.anchor import CAnchor
from noeira.codegen.cut import option, written
from noeira.codegen.scratch import Room
from noeira.ir.plan import Stage

@dataclass(frozen=True)
class TurnedCut:
    band: int = option(most=64)

class TurnedC(CAnchor):
    stem, Cut = "turned", TurnedCut

    def rule(self, body, machine):
        return TurnedCut(2)

    def stages(self, body, cut, machine):
        return Stage("bands", written(cut)), Stage("total")

    def scratch(self, body, cut):
        size = rows_operand(body).type.size
        return Room("bands", "f32", size * cut.band), Room("counts", "i64", cut.band)
"""
)


def test_a_kernel_is_described_beside_its_op(define: Define, tmp_path: Path) -> None:
    define(KERNEL)
    call = call_of("turned", C, TensorType("f32", (4, 3)))
    assert " ".join(map(str, call.choice.stages)) == "bands{band = 2} total{}"
    assert call.choice.workspace == 128 + 2 * 8
    template = "{% for f in k.functions %}// {{ f.name }} {{ k.cut.band }}\n{% endfor %}"
    template += "{{ k.result.y }};"
    (tmp_path / "turned.c.j2").write_text(template)
    assert kernel_text(call, C, "k") == "// k_bands 2\n// k_total 2\ny0;\n"
    edits = {
        "bands has no option bend; it has band: did you mean band?": ("bands", {"bend": 3}),
        "bands{band = 65}: band must be a whole number from 1 to 64": ("bands", {"band": 65}),
        "there is no stage band here: did you mean bands?": ("band", {"band": 2}),
        "bands{band = 3} total{}: needs a workspace of 216 bytes, not 144": ("bands", {"band": 3}),
    }
    for message, (name, options) in edits.items():
        stages = Stage(name, tuple(options.items())), Stage("total")
        with pytest.raises(VerifyError, match=re.escape(message)):
            kernel_text(Call(call.node, replace(call.choice, stages=stages)), C, "k")


STAGES = """{% from "macros.LANGUAGE.j2" import function %}
{% call function(k, k.functions[0]) %}
    {{ k.scratch.bands }}[0] = {{ k.operand.x }}[0];
    {{ k.scratch.counts }}[0] = {{ k.scratch.counts.size }};
{% endcall %}
{% call function(k, k.functions[1]) %}
    {{ k.result.y }}[0] = {{ k.scratch.bands }}[0]; // r0
{% endcall %}
"""
# What stands in it instead, and what is said.
WRONG_STAGES = (
    ("k.scratch.bands", "k.scratch.band", "line 3: 'band' is not there; k.scratch has bands, co"),
    ("{{ k.scratch.bands }}", "((float *)workspace)", "line 2: 'workspace' is not there; Scratch"),
)


def test_stages_share_typed_arrays(define: Define, tmp_path: Path) -> None:
    define(KERNEL)
    template = tmp_path / "turned.c.j2"
    template.write_text(STAGES.replace("LANGUAGE", "c"))
    call = call_of("turned", C, TensorType("f32", (4, 3)))
    first, last = kernel_text(call, C, "k").split("static NOINLINE ")[1:]
    assert "float *bands = (float *)workspace;" in first and "counts[0] = 2;" in first
    assert "long long *counts = (long long *)(workspace + 128);" in first
    assert "float *bands = (float *)workspace;" in last and "counts" not in last
    for right, wrong, message in WRONG_STAGES:
        template.write_text(STAGES.replace("LANGUAGE", "c").replace(right, wrong))
        with pytest.raises(VerifyError, match=re.escape(f"turned.c.j2, {message}")) as error:
            kernel_text(call, C, "k")
        assert str(error.value).endswith(": declare it in `scratch` of TurnedC, own_op_0.py")


def test_an_array_that_a_kernel_without_a_class_has_not(define: Define, tmp_path: Path) -> None:
    define(OP)
    text = "{{ k.result.y }} {{ k.scratch.bands }}"
    (tmp_path / "turned.c.j2").write_text(text)
    message = (
        "turned.c.j2, line 1: 'bands' is not there; k.scratch has no names: declare it in "
        "`scratch` of a class that derives from Row, with stem = 'turned'"
    )
    with pytest.raises(VerifyError, match=re.escape(message)):
        kernel_text(call_of("turned", C, TensorType("f32", (4, 3))), C, "k")


def test_stages_of_a_phase_have_their_own_part_of_the_workspace() -> None:
    arrays = scratch_arrays((Room("keys", "u64", 3), Room("numbers", "i32", 3)), 128)
    assert (arrays.keys.ctype, arrays.keys.bytes, arrays.keys.offset) == (
        "unsigned long long",
        8,
        128,
    )
    assert (arrays.numbers.ctype, arrays.numbers.offset) == ("int", 192)
    assert bytes_of(()) == 0


def test_rooms_that_cannot_be() -> None:
    for name in (
        "two words",
        "thread",
        "w0",
        "first",
        "last",
        "row",
        "begin",
        "float",
        "new",
        "größe",
    ):
        with pytest.raises(VerifyError, match=f"{name!r} cannot be the name of an array"):
            Room(name, "f32", 1)
    with pytest.raises(VerifyError, match="sums is of 'float'; there are f32, f64, bf16"):
        Room("sums", "float", 1)


def test_two_descriptions_of_a_kernel(define: Define) -> None:
    define(KERNEL)
    with pytest.raises(VerifyError, match="the kernel mse is described in cuda already, by MSE"):
        define(
            "from noeira.codegen.cuda.anchor import CudaAnchor\n"
            "import noeira.codegen.kernels.mse.cuda\n"
            "class Mine(CudaAnchor):\n    stem = 'mse'\n"
        )


def fused_call() -> Call:
    """A fused node of the op and a relu."""
    builder = Builder("test")
    x = builder.input("x", TensorType("f32", (4, 3)))
    y = builder.emit("relu", builder.emit("turned", x))
    node = close(tuple(builder.nodes), {y.name}, builder.origin)  # type: ignore[union-attr]
    return Call(node, C.choose(node))


def test_a_tail_that_a_kernel_does_not_take_is_refused(define: Define, tmp_path: Path) -> None:
    define(OP.replace('"row"', '"contraction"'))
    (tmp_path / "turned.c.j2").write_text(TEMPLATE)
    with pytest.raises(VerifyError, match="cannot be one kernel: turned is a kernel of its own"):
        fused_call()


def test_a_tail_that_a_template_leaves_out_is_refused(define: Define, tmp_path: Path) -> None:
    define(OP + '\n    takes = frozenset({"tail"})\n')
    (tmp_path / "turned.c.j2").write_text(TEMPLATE)
    with pytest.raises(VerifyError, match="turned leaves out the element-wise ops after it"):
        kernel_text(fused_call(), C, "k")


ROWS_TEMPLATE = """{# Twice each element of rows. #}
{% from "rows.j2" import each_row, row_maximum, row_results %}
{% call(k) each_row(k, ["x"]) %}
    {{ row_results(k, ["x"], {"y": "x + x"}) }}
{% endcall %}
"""


def test_rows_are_taken_by_ops_of_their_kind(define: Define, tmp_path: Path) -> None:
    define(OP.replace('"row"', '"alone"'))
    (tmp_path / "turned.j2").write_text(ROWS_TEMPLATE)
    call = call_of("turned", CUDA, TensorType("f32", (4, 3)))
    with pytest.raises(VerifyError, match=r"line 3: its threads .* write kind = 'row'"):
        kernel_text(call, CUDA, "k")


@pytest.mark.parametrize("target", [C, CUDA], ids=["c", "cuda"])
def test_a_head_that_a_template_leaves_out_is_refused(
    define: Define, tmp_path: Path, target: Target
) -> None:
    define(OP + '\n    takes = frozenset({"head"})\n')
    builder = Builder("test")
    x = builder.input("x", TensorType("f32", (4, 3)))
    before = builder.emit("tanh", builder.emit("relu", x))
    y = builder.emit("turned", before)
    node = close(tuple(builder.nodes), {before.name, y.name}, builder.nodes[0].origin)
    call, template = Call(node, target.choose(node)), tmp_path / "turned.j2"
    template.write_text(ROWS_TEMPLATE)
    text = kernel_text(call, target, "k")
    assert "tanh_f32" in text and "x + x" in text
    look = re.compile(r"row_results\(.*\}\)")
    template.write_text(look.sub('row_maximum(k, "high", "x")', ROWS_TEMPLATE))
    said = "turned computes the element-wise ops before it, but never stores %tanh, .* last=true"
    with pytest.raises(VerifyError, match=said):
        kernel_text(call, target, "k")


@pytest.mark.parametrize("target", [C, CUDA], ids=["c", "cuda"])
@pytest.mark.parametrize("dtype", ["bf16", "f16"])
def test_a_dtype_that_a_template_is_not_written_for(target: Target, dtype: str) -> None:
    for name, shapes in (("finite", [()]), ("matmul", [(4, 4)] * 2)):
        types = [TensorType(dtype, shape) for shape in shapes]
        with pytest.raises(DtypeError, match=rf"{name} has no kernel for {dtype} in C.*f32, f64"):
            kernel_text(call_of(name, target, *types), target, "k")
    product = call_of("matmul", C, TensorType("f32", (4, 3)), TensorType("f32", (3, 4)))
    assert kernel_text(product, C, "k")
    assert "unsigned short" in kernel_text(
        call_of("relu", target, TensorType(dtype, (4, 3))), target, "k"
    )
    moved = call_of("concat", target, TensorType(dtype, (4, 3)), TensorType(dtype, (4, 5)))
    assert "unsigned short" in kernel_text(moved, target, "k")
