"""The GEMM template: right for every shape, with the same bits for any number of threads."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from guarded import guarded

from noeira.codegen.c.isa import AVX2, AVX512, ISA, ISAS, NEON, PLAIN, isa_from_macros
from noeira.codegen.c.prelude import prelude
from noeira.codegen.c.rows import CFunction
from noeira.codegen.definitions import identifiers
from noeira.codegen.environment import template
from noeira.codegen.kernels.gemm.c_cut import GemmCut, gemm_scratch, gemm_stages
from noeira.codegen.kernels.gemm.c_rule import choose_gemm
from noeira.codegen.kernels.gemm.product import DOT_ROWS, Gemm, Partition
from noeira.codegen.scratch import Room, bytes_of, scratch_arrays
from noeira.codegen.view import Constant, Elementwise, Kernel, Load, Operand, Store

FLAGS = ("-O3", "-march=native", "-std=gnu11", "-ffp-contract=off", "-fno-math-errno")
FLAGS += ("-fno-trapping-math", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC")
NUMPY = {"f32": np.float32, "f64": np.float64}
CTYPE = {"f32": "float", "f64": "double"}
TOLERANCE = {"f32": 1e-5, "f64": 1e-13}
SIZES = (1, 7, 16, 17, 33, 100, 127, 257)
THREADS = (2, 3, 7, 1000)

pytestmark = [
    pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc"),
    pytest.mark.ops("matmul", "linear"),
]


@dataclass(frozen=True)
class Case:
    """A product to build, with the tail that goes with it."""

    m: int
    n: int
    k: int
    transpose_a: bool = False
    transpose_b: bool = False
    tail: bool = False
    partial: bool = True
    choice: GemmCut | None = None

    @property
    def a_shape(self) -> tuple[int, int]:
        return (self.k, self.m) if self.transpose_a else (self.m, self.k)

    @property
    def b_shape(self) -> tuple[int, int]:
        return (self.n, self.k) if self.transpose_b else (self.k, self.n)


def kernel(case: Case, symbol: str, dtype: str, isa: ISA) -> Kernel:
    """The view of a case: a product, or y1 = relu(product * factor + bias), y0 = y1 + residual."""
    inputs = [operand("a0", case.a_shape, dtype), operand("a1", case.b_shape, dtype)]
    outputs = [operand("y0", (case.m, case.n), dtype)]
    tail = Elementwise(dtype, stores=(Store("y0", "r0", dtype),))
    if case.tail:
        inputs.append(operand("a2", (), dtype))
        inputs.append(operand("a3", (case.n,), dtype))
        inputs.append(operand("a4", (case.m, case.n), dtype))
        outputs.append(operand("y1", (case.m, case.n), dtype))
        tail = Elementwise(
            dtype,
            constants=(Constant("c0", "0"),),
            loads=(
                Load.of("v0", "a2", dtype, (), (case.m, case.n)),
                Load.of("v1", "a3", dtype, (case.n,), (case.m, case.n)),
                Load.of("v2", "a4", dtype, *((case.m, case.n),) * 2),
            ),
            lines=(
                f"const {dtype}v r1 = r0 * v0 + v1;",
                f"const {dtype}v r2 = max_{dtype}(r1, c0);",
                f"const {dtype}v r3 = r2 + v2;",
            ),
            stores=(Store("y0", "r3", dtype), Store("y1", "r2", dtype)),
        )
    partial = "y0" if case.partial else None
    m, n, k, ta, tb = case.m, case.n, case.k, case.transpose_a, case.transpose_b
    gemm = Gemm(m, n, k, "a0", "a1", "r0", ta, tb, partial)
    choice = case.choice or choose_gemm(gemm, dtype, isa)
    none = Elementwise(dtype)
    return Kernel(
        symbol,
        tuple(inputs),
        tuple(outputs),
        None,
        none,
        tail,
        functions(symbol, choice),
        choice,
        gemm,
        scratch=scratch_arrays(gemm_scratch(gemm, choice), 0),
    )


def functions(symbol: str, cut: GemmCut) -> tuple[CFunction, ...]:
    """The functions of a kernel."""
    stages = gemm_stages(cut)
    names = [symbol] if len(stages) == 1 else [f"{symbol}_{stage.name}" for stage in stages]
    pairs = zip(names, stages, strict=True)
    return tuple(CFunction(name, dict(stage.options)) for name, stage in pairs)


def by_rule(m: int, n: int, k: int, isa: ISA, *, transpose_b: bool = False) -> GemmCut:
    """What the rule chooses for f32."""
    return choose_gemm(Gemm(m, n, k, "a0", "a1", "r0", transpose_b=transpose_b), "f32", isa)


def operand(name: str, shape: tuple[int, ...], dtype: str) -> Operand:
    return Operand(name, CTYPE[dtype], dtype, shape, int(np.prod(shape)))


def build(kernels: Sequence[Kernel], isa: ISA, folder: Path) -> ctypes.CDLL:
    """A library whose call_SYMBOL(threads, workspace, …) runs threads one after the other."""
    text = "\n".join(
        template("kernels/gemm/gemm.c.j2").render(k=item) + caller(item) for item in kernels
    )
    source, library = folder / "unit.c", folder / "unit.so"
    source.write_text(prelude(isa, identifiers(text)) + text)
    subprocess.run(["gcc", *FLAGS, str(source), "-o", str(library), "-lm"], check=True)
    return ctypes.CDLL(str(library))


def caller(item: Kernel) -> str:
    operands = item.inputs + item.outputs
    parameters = "".join(f", {operand.ctype} *{operand.id}" for operand in operands)
    arguments = "".join(f", {operand.id}" for operand in operands)
    stages = ("_gemm", "_total") if item.cut.apart else ("",)
    loops = "\n".join(
        f"""
    for (int thread = 0; thread < threads; thread++)
        {item.symbol}{stage}(thread, threads, workspace{arguments});"""
        for stage in stages
    )
    return f"""
void call_{item.symbol}(int threads, char *workspace{parameters}) {{{loops}
}}
"""


Arrays = Sequence[np.ndarray]


def run(library: ctypes.CDLL, item: Kernel, arrays: Arrays, threads: int) -> list[np.ndarray]:
    """Calls a kernel on guarded copies of its inputs; outputs and workspace start as NaN."""
    dtype = item.cut.dtype
    results = [np.full(o.shape, np.nan, NUMPY[dtype]) for o in item.outputs]
    memory = [guarded(array) for array in (*arrays, *results)]
    workspace = np.full(bytes_of(gemm_scratch(item.view, item.cut)) + 1, 255, np.uint8)
    call = getattr(library, f"call_{item.symbol}")
    call(
        threads,
        ctypes.c_void_p(workspace.ctypes.data),
        *(ctypes.c_void_p(place.ctypes.data) for place in memory),
    )
    return [place.copy() for place in memory[len(arrays) :]]


def check(library: ctypes.CDLL, item: Kernel, case: Case) -> list[np.ndarray]:
    """Compares with float64, and the bits at several thread counts; returns the outputs."""
    dtype = item.cut.dtype
    generator = np.random.default_rng(case.m * 1_000_003 + case.n * 1_009 + case.k)
    arrays = [generator.standard_normal(x.shape).astype(NUMPY[dtype]) for x in item.inputs]
    outputs = run(library, item, arrays, 1)
    wide = [array.astype(np.float64) for array in arrays]
    a, b = wide[0].T if case.transpose_a else wide[0], wide[1].T if case.transpose_b else wide[1]
    expected, scale = [a @ b], np.abs(a) @ np.abs(b)
    if case.tail:
        _, _, factor, bias, residual = wide
        activation = np.maximum(expected[0] * factor + bias, 0)
        expected = [activation + residual, activation]
        scale = scale * abs(factor) + np.abs(bias) + np.abs(residual)
    for output, reference in zip(outputs, expected, strict=True):
        assert np.all(np.abs(output - reference) <= TOLERANCE[dtype] * scale), case
    for threads in THREADS:
        for output, again in zip(outputs, run(library, item, arrays, threads), strict=True):
            assert output.tobytes() == again.tobytes(), (case, threads)
    return outputs


def check_all(cases: Sequence[Case], dtype: str, isa: ISA, folder: Path) -> list[list[np.ndarray]]:
    kernels = [kernel(case, f"kernel{number}", dtype, isa) for number, case in enumerate(cases)]
    library = build(kernels, isa, folder)
    return [check(library, item, case) for item, case in zip(kernels, cases, strict=True)]


def host_isa() -> ISA:
    command = ["gcc", "-march=native", "-dM", "-E", "-x", "c", "/dev/null"]
    macros = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return isa_from_macros(macros)


def runnable() -> list[ISA]:
    """The kinds of vector unit whose code this machine runs."""
    if shutil.which("gcc") is None:
        return [PLAIN]
    narrower = {AVX512: [AVX2, PLAIN], AVX2: [PLAIN], NEON: [PLAIN], PLAIN: []}
    return [host_isa(), *narrower[host_isa()]]


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("isa", runnable(), ids=lambda isa: isa.name)
def test_every_size_and_transpose(isa: ISA, dtype: str, tmp_path: Path) -> None:
    cases = []
    for number, m in enumerate(SIZES):
        for turn in range(4):
            n, k = SIZES[(number * 3 + turn) % 8], SIZES[(number * 5 + 3 * turn + 1) % 8]
            tail = (number + turn) % 2 == 0
            cases.append(Case(m, n, k, bool(turn & 1), bool(turn & 2), tail))
    check_all(cases, dtype, isa, tmp_path)


@pytest.mark.parametrize("isa", runnable(), ids=lambda isa: isa.name)
def test_several_blocks_of_k(isa: ISA, tmp_path: Path) -> None:
    blocks = Partition(900, 7)
    cases = []
    for m, n in ((100, 90), (1, 90), (3, 257), (64, 96)):
        for transpose_b in (False, True):
            choice = by_rule(m, n, 900, isa, transpose_b=transpose_b)
            choice = replace(choice, blocks=blocks, pack_b=transpose_b)
            several = Case(m, n, 900, transpose_b=transpose_b, choice=choice)
            cases += [several, replace(several, partial=False, tail=True)]
    check_all(cases, "f32", isa, tmp_path)


def test_large_shape(tmp_path: Path) -> None:
    cases = [Case(300, 1000, 900), Case(300, 1000, 900, True, True, tail=True)]
    check_all(cases, "f32", runnable()[0], tmp_path)


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("isa", runnable(), ids=lambda isa: isa.name)
def test_dot_products(isa: ISA, dtype: str, tmp_path: Path) -> None:
    cases = []
    for (m, n), k in product(((1, 1), (1, 257), (2, 100), (3, 33), (4, 7)), (1, 15, 16, 129)):
        cases += [Case(m, n, k, transpose_b=True, tail=tail) for tail in (False, m > 1)]
    kernels = [kernel(case, "k", dtype, isa) for case in cases]
    assert all(item.cut.dots(item.view) for item in kernels)
    check_all(cases, dtype, isa, tmp_path)


def test_bits_do_not_depend_on_the_choice(tmp_path: Path) -> None:
    isa = runnable()[0]
    lanes = isa.lanes("f32")
    width = -(-150 // lanes)
    choices = [
        None,
        GemmCut(
            Partition(37, 37),
            Partition(width, width),
            Partition(65, 65),
            1,
            True,
            False,
            False,
            "f32",
            lanes,
        ),
        GemmCut(
            Partition(37, 37),
            Partition(width, width),
            Partition(65, 1),
            3,
            False,
            False,
            True,
            "f32",
            lanes,
        ),
        GemmCut(
            Partition(37, 13),
            Partition(width, -(-width // 2)),
            Partition(65, 4),
            2,
            False,
            False,
            False,
            "f32",
            lanes,
        ),
        GemmCut(
            Partition(37, 13),
            Partition(width, -(-width // 2)),
            Partition(65, 4),
            1,
            True,
            False,
            True,
            "f32",
            lanes,
        ),
    ]
    cases = [Case(37, 150, 65, choice=choice) for choice in choices]
    outputs = check_all(cases, "f32", isa, tmp_path)
    assert len({output.tobytes() for (output,) in outputs}) == 1


def test_row_operand_of_several_rows(tmp_path: Path) -> None:
    isa = runnable()[0]
    item = kernel(Case(12, 21, 5), "positions", "f32", isa)
    tail = Elementwise(
        "f32",
        loads=(Load.of("v0", "a2", "f32", (4, 21), (3, 4, 21)),),
        lines=("const f32v r1 = r0 + v0;",),
        stores=(Store("y0", "r1", "f32"),),
    )
    item = replace(item, inputs=(*item.inputs, operand("a2", (4, 21), "f32")), tail=tail)
    generator = np.random.default_rng(0)
    a, b, positions = (generator.standard_normal(x.shape).astype(np.float32) for x in item.inputs)
    (output,) = run(build([item], isa, tmp_path), item, [a, b, positions], 3)
    np.testing.assert_allclose(output, a @ b + np.tile(positions, (3, 1)), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("isa", ISAS.values(), ids=list(ISAS))
def test_choices_fit_the_machine(isa: ISA) -> None:
    sizes = product((1, 2, 3, 6, 7, 33, 100, 1024, 50257), (1, 10, 64, 257, 4096), (1, 784, 4096))
    for (m, n, k), transpose_b in product(sizes, (False, True)):
        gemm = Gemm(m, n, k, "a0", "a1", "r0", transpose_b=transpose_b)
        choice = choose_gemm(gemm, "f32", isa)
        if not choice.dots(gemm):
            assert max((rows + 1) * vectors for rows, vectors in choice.tiles) < isa.registers
        assert choice.row_tiles.extent == m and choice.blocks.extent == k
        assert choice.panels.extent == -(-n // choice.lanes)
        copied = choice.group * choice.copy_size if choice.pack_b else 0
        assert copied * 4 <= 8192 * isa.vector_bytes
        assert choice.pack_b or not transpose_b or m <= DOT_ROWS


def test_choices_are_those_that_measured_well() -> None:
    def tiles(m: int, n: int, k: int, isa: ISA) -> tuple[tuple[int, int], ...]:
        return by_rule(m, n, k, isa).tiles

    assert tiles(100, 256, 784, AVX512) == ((5, 4),)
    assert tiles(1020, 1024, 1024, AVX512) == ((6, 4),)
    assert tiles(1020, 1024, 1024, AVX2) == ((6, 2),)
    assert tiles(1, 256, 784, AVX512) == ((1, 4),)
    assert tiles(100, 10, 128, AVX512) == ((13, 1), (12, 1))


def test_cut() -> None:
    for extent in range(1, 40):
        for count in range(1, extent + 1):
            cut = Partition(extent, count)
            assert sum(size * cut.pieces(size) for size in cut.sizes) == extent
            assert sum(cut.pieces(size) for size in cut.sizes) == count
            assert len(cut.sizes) == 1 or cut.sizes[0] == cut.sizes[1] + 1


def test_places_of_pieces_are_written_without_what_is_known() -> None:
    assert Partition(8, 8).start("panel", 16) == "panel * 16"
    assert Partition(8, 2).start("panel", 16) == "panel * 64"
    assert Partition(3, 3).start("tile") == "tile"
    assert Partition(3, 2).start("tile", 8) == "(tile + (tile < 1 ? tile : 1)) * 8"


def test_workspace_holds_sums_that_no_output_can() -> None:
    gemm = Gemm(300, 1000, 4096, "a0", "a1", "r0", partial="y0")
    inside = replace(gemm, partial=None)
    choice = by_rule(300, 1000, 4096, AVX512)
    assert choice.chained
    assert gemm_scratch(gemm, choice) == ()
    assert gemm_scratch(inside, choice) == (Room("partial", "f32", 300 * 1000),)
    assert gemm_scratch(inside, replace(choice, blocks=Partition(4096, 1))) == ()
    apart = replace(choice, blocks=Partition(4096, 3), apart=True)
    assert gemm_scratch(gemm, apart) == (Room("sums", "f32", 3 * 300 * 1000),)


def test_few_tiles_of_a_long_sum_are_made_apart() -> None:
    def choice(m: int, n: int, k: int) -> GemmCut:
        return by_rule(m, n, k, AVX512)

    assert choice(16, 16, 60000).apart
    assert choice(16, 16, 60000).items >= 16
    assert not choice(16, 16, 400).apart
    assert not choice(1024, 1024, 60000).apart


@pytest.mark.parametrize("isa", runnable(), ids=lambda isa: isa.name)
def test_blocks_summed_apart(isa: ISA, tmp_path: Path) -> None:
    cases = []
    for m, n, k in ((16, 16, 3000), (37, 150, 65), (1, 10, 700), (5, 33, 401)):
        for transpose_a, transpose_b in product((False, True), repeat=2):
            choice = by_rule(m, n, k, isa, transpose_b=transpose_b)
            choice = replace(choice, blocks=Partition(k, 5), group=1, by_rows=False, apart=True)
            choice = replace(choice, pack_b=transpose_b)
            case = Case(m, n, k, transpose_a, transpose_b, choice=choice)
            cases += [case, replace(case, tail=m > 1)]
    check_all(cases, "f32", isa, tmp_path)
