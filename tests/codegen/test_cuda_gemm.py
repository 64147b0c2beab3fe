"""The CUDA GEMM on the CPU: right for every shape, and the same bits whatever the tile or order."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from c_sweep import CKernels
from cuda_products import ORDERS, TRANSPOSES, check_products, gemm_of_shape, numbered
from cuda_sweep import TARGET, CudaKernels
from needs import needs_cxx
from sweep import TOLERANCE, Case, magnitudes, reference, sample_case

from noeira.codegen.c.target import CTarget
from noeira.codegen.cuda.arch import ARCHS, arch
from noeira.codegen.cuda.prelude import device_prelude
from noeira.codegen.cuda.target import CudaTarget
from noeira.codegen.definitions import identifiers
from noeira.codegen.kernel import kernel_text
from noeira.codegen.kernels.gemm.cuda_cut import CudaGemmCut, cuda_gemm_cut, gemm_launches
from noeira.codegen.kernels.gemm.cuda_rule import TILES, choose_cuda_gemm, cycles
from noeira.codegen.kernels.gemm.product import Gemm, Partition, gemm_of
from noeira.codegen.scratch import bytes_of
from noeira.errors import VerifyError
from noeira.ir.body import body_of
from noeira.ir.builder import Builder
from noeira.ir.fused import close
from noeira.ir.graph import Value
from noeira.ir.op import op
from noeira.ir.plan import Call, Choice, Stage
from noeira.ir.samples import Draw, Sample
from noeira.ir.types import TensorType
from noeira.runtime.build.cache import open_cache
from noeira.runtime.c.compiler import find_compiler
from noeira.runtime.cuda.compiler import Compiled, find_cuda_compiler

pytestmark = [needs_cxx, pytest.mark.ops("matmul", "linear")]

# m, n, k: 1 and primes, whole accesses and not, whole tiles and not.
SHAPES = (
    *((1, 1, 1), (1, 1, 257), (1, 33, 100), (31, 1, 127), (3, 2, 1), (7, 17, 16), (32, 32, 32)),
    *((33, 100, 7), (100, 10, 64), (31, 64, 33), (64, 31, 100), (127, 33, 257), (128, 128, 40)),
)


@pytest.mark.parametrize(("dtype", "turn"), [("f32", 0), ("f32", 2), ("f64", 1)])
def test_shapes_by_rule(dtype: str, turn: int, tmp_path: Path) -> None:
    """Each shape with operands transposed in one way, the next with them in another."""
    ways = [TRANSPOSES[(turn + number) % 4] for number in range(len(SHAPES))]
    gemms = [gemm_of_shape(*shape, way) for shape, way in zip(SHAPES, ways, strict=True)]
    check_products(numbered([choose_cuda_gemm(g, dtype, TARGET.machine) for g in gemms]), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("transposes", TRANSPOSES, ids=["ab", "abT", "aTb", "aTbT"])
def test_every_shape_by_rule(dtype: str, transposes: tuple[bool, bool], tmp_path: Path) -> None:
    gemms = [gemm_of_shape(*shape, transposes) for shape in SHAPES]
    check_products(numbered([choose_cuda_gemm(g, dtype, TARGET.machine) for g in gemms]), tmp_path)


@pytest.mark.parametrize("dtype", ["f32", pytest.param("f64", marks=pytest.mark.slow)])
def test_every_tile(dtype: str, tmp_path: Path) -> None:
    cuts = list[CudaGemmCut]()
    for number, (rows, columns, depth, down, across) in enumerate(TILES[dtype]):
        shape = (65, 131, 67) if number % 3 else (128, 64, 80)
        gemm = gemm_of_shape(*shape, TRANSPOSES[number % 4])
        pieces = Partition(-(-gemm.k // depth), 1 + number % 2)
        cuts.append(CudaGemmCut(gemm, dtype, rows, columns, depth, down, across, pieces))
    check_products(numbered(cuts), tmp_path, ORDERS[2:3])


def test_pieces_of_k(tmp_path: Path) -> None:
    """Even and uneven pieces, of one tile and of several; sums of an odd number of elements."""
    cuts = [
        CudaGemmCut(
            gemm_of_shape(*shape), dtype, 16, 16, 16, 2, 2, Partition(-(-shape[2] // 16), n)
        )
        for shape in ((5, 3, 100), (20, 20, 96), (33, 16, 128))
        for n in (2, 4, 6)
        for dtype in ("f32", "f64")
    ]
    check_products(numbered(cuts), tmp_path)


def fused(dtype: str, name: str) -> Case:
    """A contraction and a tail, short or long, with operands of every access."""
    builder = Builder("fused")

    def inputs(*shapes: tuple[int, ...]) -> list[Value]:
        return [builder.input(f"v{i}", TensorType(dtype, s)) for i, s in enumerate(shapes)]

    if name == "relu":
        x, w, b = inputs((33, 40), (40, 37), (37,))
        outputs = [builder.emit("relu", builder.emit("linear", x, w, b))]
    elif name == "gelu, both stored":
        x, w, b = inputs((70, 40), (40, 68), (68,))
        y = builder.emit("linear", x, w, b)
        outputs = [y, builder.emit("gelu", y)]
    elif name == "slope":
        d, w, x = inputs((33, 10), (40, 10), (33, 40))
        outputs = [builder.emit("relu.d0", builder.emit("matmul", d, w, transpose_b=True), x)]
    else:
        columns = 36 if name == "every access" else 35
        x, w, rows, full, one = inputs((5, 6, 50), (50, columns), (6, columns), (5, 6, columns), ())
        y = builder.emit("add", builder.emit("matmul", x, w), rows)
        z = builder.emit("multiply", builder.emit("add", builder.emit("tanh", y), full), one)
        outputs = [y, builder.emit("sigmoid", z)]
    body = tuple(builder.nodes)
    node = close(body, {v.name for v in outputs}, body[0].origin)
    return Case(f"{name} {dtype}", node, tuple(Draw(v.type) for v in node.inputs))


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_tails(dtype: str) -> None:
    """By rule, and by tiles of 4 and 8 rows a thread, whole and in pieces of k."""
    names = ("relu", "gelu, both stored", "slope", "every access", "every access, odd")
    cases, choices = list[Case](), list[Choice]()
    for name in names:
        case = fused(dtype, name)
        gemm = gemm_of(body_of(case.node))
        tiles = (32, 32, 16, 4, 4), (64, 64, 16, 8, 4), (16, 16, 8, 2, 2)
        cuts = [
            CudaGemmCut(gemm, dtype, *tile, Partition(-(-gemm.k // tile[2]), pieces))
            for tile, pieces in zip(tiles, (1, 1, 2), strict=True)
        ]
        choices_of_cuts = (Choice(gemm_launches(c), bytes_of(c.scratch)) for c in cuts)
        made = [TARGET.choose(case.node), *choices_of_cuts]
        cases += [replace(case, label=f"{case.label} {choice.stages}") for choice in made]
        choices += made
    kernels = CudaKernels(tuple(cases), tuple(choices))
    plain, checked = kernels.built(), kernels.built(check=True)
    for case in cases:
        arrays = case.arrays()
        expected = reference(case.node, arrays)
        scales = magnitudes(case.node, arrays, expected)
        found = plain.run(case, arrays)
        for have, want, scale in zip(found, expected, scales, strict=True):
            assert np.all(abs(have - want) <= TOLERANCE[dtype] * scale), case.label
        others = [plain.run(case, arrays, way) for way in ORDERS[1:3]]
        for other in (*others, checked.run(case, arrays)):
            assert [a.tobytes() for a in other] == [a.tobytes() for a in found], case.label


STAGE = Stage(
    "gemm",
    (
        ("grid", 16),
        ("block", 256),
        *(("rows", 64), ("columns", 64), ("depth", 16), ("thread_rows", 4), ("thread_columns", 4)),
        ("shared", 16384),
    ),
)
LARGE = {"rows": 256, "columns": 256}
SQUARES = {n: {"thread_rows": n, "thread_columns": n} for n in (1, 8, 16)}
EDITED = {
    "rows must be a power of two from 1 to 256": {"rows": 48},
    "depth must be a power of two from 1 to 128": {"depth": 0},
    "columns must be a power of two": {"columns": True},
    "thread_rows must be at most 2, as rows is": {"rows": 2},
    "splits must be a whole number from 1 to 16: k = 256 has 16 tiles of 16 steps": {"splits": 17},
    "splits: did you mean rows?": {"row": 64},
    "grid must be 16 here": {"grid": 4},
    "block must be 128 here": {"thread_rows": 8},
    "shared must be 8192 here": {"depth": 8},
    "shared is missing, it must be 16384": {"shared": None},
    "with these options the stages are gemm and total": {"splits": 2, "grid": 32},
    "at least 32 are needed": {"rows": 16, "columns": 16, "thread_rows": 8},
    "= 4,096 threads, sm_80 has at most 1,024 in a block": SQUARES[1],
    "needs about 344 registers, sm_80 has at most 255": LARGE | SQUARES[16] | {"depth": 8},
    "1024 threads with about 184 registers each are more than the 65,536 registers": (
        LARGE | SQUARES[8] | {"depth": 128}
    ),
    "needs 196,608 bytes of shared memory for its tiles, sm_80 has at most 166,912": {
        "depth": 128,
        "columns": 128,
    },
}


@pytest.mark.parametrize("message", EDITED)
def test_edited_options_are_checked(message: str) -> None:
    gemm = Gemm(256, 256, 256, "a0", "a1", "r0", transpose_a=True)
    assert cuda_gemm_cut(gemm, (STAGE,), "f32", TARGET.machine).rows == 64
    options = {k: v for k, v in (dict(STAGE.options) | EDITED[message]).items() if v is not None}
    with pytest.raises(VerifyError) as caught:
        cuda_gemm_cut(gemm, (Stage("gemm", tuple(options.items())),), "f32", TARGET.machine)
    assert message in str(caught.value)


def test_total_takes_any_launch_of_few_options() -> None:
    gemm = Gemm(256, 256, 256, "a0", "a1", "r0", transpose_a=True)
    parts = replace(STAGE, options=(*STAGE.options, ("splits", 2)))
    parts = replace(parts, options=tuple((dict(parts.options) | {"grid": 32}).items()))
    total = Stage("total", (("grid", 3), ("block", 64)))
    assert cuda_gemm_cut(gemm, (parts, total), "f32", TARGET.machine).split
    for options, message in (
        ((("grid", 0), ("block", 64)), "grid must be a whole number of at least 1"),
        ((("grid", 1), ("block", 48)), "or a multiple of 32"),
        ((("grid", 1), ("block", 64), ("size", 1)), "total has no option size"),
        ((("grid", 1), ("block", 2048)), "at most 1,024 threads in a block"),
    ):
        with pytest.raises(VerifyError, match=message):
            cuda_gemm_cut(gemm, (parts, Stage("total", options)), "f32", TARGET.machine)


@pytest.mark.parametrize("name", ARCHS)
@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_the_rule_fits_every_gpu(name: str, dtype: str) -> None:
    one = arch(name)
    for shape in (*SHAPES, (4096, 4096, 4096), (1, 4096, 4096), (100_000, 10, 64), (64, 64, 65536)):
        for transposes in TRANSPOSES:
            gemm = gemm_of_shape(*shape, transposes)
            cut = choose_cuda_gemm(gemm, dtype, one)
            assert cycles(cut, one) < float("inf")
            again = cuda_gemm_cut(gemm, gemm_launches(cut), dtype, one)
            assert again == cut


def chosen(m: int, n: int, k: int) -> CudaGemmCut:
    return choose_cuda_gemm(gemm_of_shape(m, n, k), "f32", TARGET.machine)


def test_the_rule_fills_the_gpu() -> None:
    large = chosen(4096, 4096, 4096)
    assert large.thread_rows * large.thread_columns == 64 and not large.split
    deep = chosen(64, 64, 65536)
    assert deep.split and deep.grid >= TARGET.machine.multiprocessors / 2
    row, column = chosen(1, 4096, 4096), chosen(4096, 1, 4096)
    assert (row.rows, column.columns) == (1, 1)
    assert min(row.grid, column.grid) >= TARGET.machine.multiprocessors
    assert not chosen(100, 10, 256).split and not chosen(1, 1, 1).split


Product = tuple[tuple[int, int, int], str]
MLP: tuple[Product, ...] = (
    ((100, 784, 256), ""),
    ((100, 256, 10), ""),
    ((784, 100, 256), "transpose_a"),
    ((256, 100, 10), "transpose_a"),
    ((100, 10, 256), "transpose_b"),
)


def machine_code(name: str, products: Sequence[Product], folder: Path) -> Compiled:
    """Products as a GPU gets them: (m, k, n), and which operand is transposed."""
    compiler = find_cuda_compiler(open_cache())
    if compiler is None:
        pytest.skip("there is no CUDA compiler")
    target, builder = CudaTarget(arch(name)), Builder("products")
    for number, ((m, k, n), turned) in enumerate(products):
        a = (k, m) if turned == "transpose_a" else (m, k)
        b = (n, k) if turned == "transpose_b" else (k, n)
        values = [builder.input(f"v{number}.{i}", f32(*shape)) for i, shape in enumerate((a, b))]
        builder.emit("matmul", *values, **({turned: True} if turned else {}))
    texts = [
        kernel_text(Call(node, target.choose(node)), target, f"kernel_{number}")
        for number, node in enumerate(builder.nodes)
    ]
    body = "\n".join(texts)
    text = device_prelude(identifiers(body)) + body
    return compiler.compile(text, "unit.cu", target.machine, folder)


@pytest.mark.parametrize("name", ["sm_80", "sm_90"])
def test_machine_code_of_the_mlp(name: str, tmp_path: Path) -> None:
    """Forward, gradients of weights, gradient of the hidden layer: no spills, 16-byte accesses."""
    made = machine_code(name, MLP, tmp_path)
    for kernel in made.resources:
        assert not kernel.spill_stores and not kernel.spill_loads, kernel
    for access in ("ld.global", "st.global", "ld.shared", "st.shared"):
        assert re.search(rf"{re.escape(access)}\.v4\.[fbu]32", made.ptx), access


@pytest.mark.parametrize("name", ["sm_80", "sm_90", "sm_100"])
def test_two_blocks_of_the_largest_tiles_have_room(name: str, tmp_path: Path) -> None:
    """For whole tiles the compiler is told that a multiprocessor is to hold two."""
    turned = ("", "transpose_a", "transpose_b")
    made = machine_code(name, [((8192, 1024, 8192), one) for one in turned], tmp_path)
    for kernel in made.resources:
        assert kernel.block == 256 and kernel.registers <= 128, kernel
        assert not kernel.spill_stores and not kernel.spill_loads, kernel


def f32(*shape: int) -> TensorType:
    return TensorType("f32", shape)


def test_the_bits_of_the_c_target() -> None:
    """Where C sums every element in one chain, too."""
    compiler = find_compiler()
    if compiler is None:
        pytest.skip("there is no C compiler")
    if not compiler.isa.fma:
        pytest.skip("C has no fma here")
    sample = Sample((Draw(f32(33, 100)), Draw(f32(100, 48))), {})
    case = sample_case(op("matmul"), sample)
    (c_output,) = (
        CKernels.of(CTarget(compiler.isa), [case]).built(compiler).run(case, case.arrays())
    )
    (output,) = CudaKernels.of([case]).built().run(case, case.arrays())
    assert output.tobytes() == c_output.tobytes()
