"""The vector prelude of generated C: each function against exact values or NumPy, on each ISA."""

from __future__ import annotations

import math
import subprocess
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from maths_checks import check_errors, check_fma, check_normal, check_numpys, check_specials, points
from vector_maths import (
    ANGLES,
    CTYPES,
    DTYPES,
    FLAGS,
    MATHS,
    NORMAL,
    X86_FLAGS,
    Expected,
    Program,
    build,
    expected,
    native_isa,
    program_source,
    widened,
    zig_compiler,
)

from noeira.codegen.c.isa import AVX2, AVX512, ISA, ISAS, NEON, PLAIN, isa_from_macros
from noeira.codegen.c.prelude import prelude
from noeira.codegen.definitions import identifiers

F32_LIMITS = {
    "exp": 1.1,
    "expm1": 1.6,
    "log": 1.1,
    "log1p": 1.5,
    "tanh": 2.0,
    "sigmoid": 1.8,
    "erf": 1.1,
    "softplus": 1.8,
    "sin": 1.0,
    "cos": 1.0,
}
F64_LIMIT = 2.0


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("vector-maths")


@pytest.fixture(params=ISAS.values(), ids=list(ISAS))
def program(request: pytest.FixtureRequest, folder: Path) -> Program:
    return build(request.param, folder)


@cache
def exact_points(name: str, dtype: str) -> tuple[np.ndarray, Expected]:
    x = points(name, dtype, 8_000)
    return x, expected(name, x, dtype)


@cache
def approximate_points(name: str, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Many f32 arguments and float64 values there, to find those where the error is greatest."""
    x = points(name, "f32", count)
    wide = widened(x)
    with np.errstate(all="ignore"):
        if name == "erf":
            return x, np.array([math.erf(value) for value in wide.tolist()])
        if name == "sigmoid":
            return x, np.exp(np.minimum(wide, 0)) / (1 + np.exp(-np.abs(wide)))
        if name == "softplus":
            return x, np.logaddexp(0, wide)
        return x, getattr(np, name)(wide)


def worst_points(program: Program, name: str) -> np.ndarray:
    """The f32 arguments out of many where the program seems to err most."""
    x, values = approximate_points(name, 40_000 if program.emulated else 300_000)
    y = program(f"{name}_f32", x)
    with np.errstate(all="ignore"):
        errors = np.abs(y - values) / np.spacing(np.abs(values).astype("f4"))
    return x[np.argsort(np.nan_to_num(errors, nan=0.0, posinf=0.0))[-200:]]


@pytest.mark.parametrize("name", (*MATHS, *ANGLES))
@pytest.mark.parametrize("dtype", DTYPES)
def test_errors_in_units_in_the_last_place(program: Program, name: str, dtype: str):
    limit = F32_LIMITS[name] if dtype == "f32" else F64_LIMIT
    check_errors(program, name, *exact_points(name, dtype), limit)
    if dtype == "f32":
        x = worst_points(program, name)
        check_errors(program, name, x, expected(name, x, dtype), limit)


@pytest.mark.parametrize("name", NORMAL)
@pytest.mark.parametrize("dtype", DTYPES)
def test_errors_of_the_normal_distribution(program: Program, name: str, dtype: str):
    count = 20_000 if program.emulated or dtype == "f64" else 400_000
    x = np.concatenate(
        [np.random.default_rng(4).uniform(-16, 16, count), np.linspace(-5, 5, count)]
    )
    check_normal(program, name, x.astype(DTYPES[dtype]), math.erfc)


@pytest.mark.parametrize("dtype", DTYPES)
def test_special_values_and_the_sign_of_zero(program: Program, dtype: str):
    check_specials(program, dtype)


@pytest.mark.parametrize("isa", [AVX2, NEON], ids=["avx2", "neon"])
@pytest.mark.parametrize("name", (*MATHS, *NORMAL))
def test_f32_bits_are_those_of_avx512(folder: Path, isa: ISA, name: str):
    x = points(name, "f32", 100_000)
    y, other = (build(kind, folder)(f"{name}_f32", x) for kind in (AVX512, isa))
    number = ~(np.isnan(y) & np.isnan(other))
    np.testing.assert_array_equal(y.view("u4")[number], other.view("u4")[number])


@pytest.mark.parametrize("dtype", DTYPES)
def test_arithmetic_and_comparisons_are_numpys(program: Program, dtype: str):
    check_numpys(program, dtype)


def test_fma_rounds_as_the_unit_does(program: Program):
    check_fma(program, once=program.isa.fma)


def tree(lanes: np.ndarray, isa: ISA) -> np.ndarray:
    """Sums along the last axis in the order that `sum_f32` and `sum_f64` state."""
    while lanes.shape[-1] > 1:
        half = lanes.shape[-1] // 2
        if isa is NEON:
            lanes = lanes[..., 0::2] + lanes[..., 1::2]
        else:
            lanes = lanes[..., :half] + lanes[..., half:]
    return lanes[..., 0]


@pytest.mark.parametrize("dtype", DTYPES)
def test_reductions(program: Program, dtype: str):
    lanes = program.isa.lanes(dtype)
    x = np.random.default_rng(3).normal(size=(64, lanes)).astype(DTYPES[dtype])
    sums = program(f"sum_{dtype}", x.ravel()).reshape(x.shape)[:, 0]
    np.testing.assert_array_equal(sums, tree(x, program.isa))
    for lane in range(lanes):
        x[lane, lane] = math.nan
        x[lanes + lane, lane] = math.inf
        x[2 * lanes + lane] = -math.inf
    below = program(f"any_{dtype}", x.ravel()).reshape(x.shape)[:, 0]
    np.testing.assert_array_equal(below, (x < 0).any(axis=1))
    greatest = program(f"maximum_{dtype}", x.ravel()).reshape(x.shape)[:, 0]
    np.testing.assert_array_equal(greatest, x.max(axis=1))


def test_partial_loads_and_stores_touch_only_their_lanes(program: Program):
    assert subprocess.run([*program.command, "parts"]).returncode == 0


@pytest.mark.parametrize("isa", ISAS.values(), ids=list(ISAS))
def test_clang_accepts_the_prelude(isa: ISA, tmp_path: Path):
    compiler = zig_compiler()
    if compiler is None:
        pytest.skip("the package ziglang is not installed")
    source = tmp_path / "unit.c"
    source.write_text(program_source(isa), encoding="utf-8")
    target = "aarch64-linux-musl" if isa is NEON else "x86_64-linux-musl"
    flags = X86_FLAGS.get(isa, [])
    command = [*compiler, "-target", target, *flags, *FLAGS, "-c", str(source)]
    subprocess.run([*command, "-o", str(tmp_path / "unit.o")], check=True)


def test_a_unit_gets_only_what_it_uses():
    kernel = "// exp_f32 of f64\nstore_f32(y, tanh_f32(load_f32(a))); /* sum_f32 */"
    text = prelude(AVX2, identifiers(kernel))
    for name in ("load_f32", "store_f32", "tanh_f32", "reduce_f32", "copysign_f32"):
        assert f" {name}(" in text
    for name in ("exp_f32", "sum_f32", "log_f32", "max_f32", "f64"):
        assert name not in text
    assert "immintrin.h" in text


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_dtype_stands_for_its_basics(dtype: str):
    text = prelude(PLAIN, frozenset({dtype}))
    for name in ("load", "store", "select", "max", "sign", "sum"):
        assert f" {name}_{dtype}(" in text
    assert f"exp_{dtype}" not in text
    assert CTYPES[dtype] in text


def test_a_wrong_machine_is_named_by_the_compiler(tmp_path: Path):
    compiler = zig_compiler()
    if compiler is None:
        pytest.skip("the package ziglang is not installed")
    source = tmp_path / "unit.c"
    source.write_text(prelude(AVX512, frozenset({"f32"})), encoding="utf-8")
    command = [*compiler, "-target", "x86_64-linux-musl", "-mavx2", "-c", str(source)]
    done = subprocess.run([*command, "-o", "unit.o"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode != 0
    assert "this unit was generated for AVX-512" in done.stderr


def macros(*names: str) -> str:
    return "".join(f"#define {name} 1\n" for name in names)


def test_the_isa_is_read_from_the_compilers_macros():
    avx512 = ("__AVX512F__", "__AVX512VL__", "__AVX512DQ__", "__AVX512BW__")
    assert isa_from_macros(macros(*avx512, "__AVX2__", "__FMA__")) is AVX512
    assert isa_from_macros(macros(*avx512[:-1], "__AVX2__", "__FMA__")) is AVX2
    assert isa_from_macros(macros("__AVX2__")) is PLAIN
    assert isa_from_macros(macros("__ARM_NEON", "__aarch64__")) is NEON
    assert isa_from_macros(macros("__ARM_NEON")) is PLAIN
    assert isa_from_macros("") is PLAIN
    assert native_isa() in ISAS.values()


def test_lanes():
    assert [isa.lanes("f32") for isa in (AVX512, AVX2, NEON, PLAIN)] == [16, 8, 4, 4]
    assert [isa.lanes("f64") for isa in (AVX512, AVX2, NEON, PLAIN)] == [8, 4, 2, 2]
