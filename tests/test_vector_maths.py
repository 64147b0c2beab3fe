"""The vector prelude of generated C: each function against exact values or NumPy, on each ISA."""

from __future__ import annotations

import math
import subprocess
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from vector_maths import (
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

from noeira.codegen.prelude import identifiers, prelude
from noeira.codegen.target import AVX2, AVX512, ISA, ISAS, NEON, PLAIN, isa_from_macros

F32_LIMITS = {
    "exp": 1.1,
    "expm1": 1.6,
    "log": 1.1,
    "log1p": 1.5,
    "tanh": 2.0,
    "sigmoid": 1.8,
    "erf": 1.1,
    "softplus": 1.8,
}
F64_LIMIT = 2.0

# The least and greatest arguments beyond which a result no longer changes, or is no number.
SPANS = {
    "f32": {"exp": (-106, 90), "expm1": (-20, 90), "tanh": (-10, 10), "erf": (-4.5, 4.5)},
    "f64": {"exp": (-748, 711), "expm1": (-40, 711), "tanh": (-20, 20), "erf": (-6.5, 6.5)},
}
WIDE = {"f32": 106, "f64": 748}

EDGES = {
    "f32": [88.72283, 88.72284, -87.33654, -87.33655, -103.27893, -103.97, -103.98, -104.5]
    + [2.0**k for k in (-149, -148, -127, -126, -24, -25, 26, 127)]
    + [1.17549e-38, 3.4028234e38, 0.84, 9.2, -0.99999994, 1.0000001, 0.99999994, 1.4142135],
    "f64": [709.782712893384, 709.7827128933841, -708.3964185322641, -745.13, -745.14, -746.0]
    + [2.0**k for k in (-1074, -1073, -1023, -1022, -53, -54, 53, 1023)]
    + [2.2250738585072e-308, 1.7976931348623157e308, -0.9999999999999999, 1.0000000000000002],
}


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("vector-maths")


@pytest.fixture(params=ISAS.values(), ids=list(ISAS))
def program(request: pytest.FixtureRequest, folder: Path) -> Program:
    return build(request.param, folder)


@cache
def points(name: str, dtype: str, count: int) -> np.ndarray:
    """Arguments: edges, all bit patterns, and where the function does most."""
    generator = np.random.default_rng(0)
    low, high = SPANS[dtype].get(name, (-WIDE[dtype], WIDE[dtype]))
    edges = np.array([0.0, 1.0, 2.0, 100.0, 1000.0, math.inf, math.nan, *EDGES[dtype]])
    bits = np.frombuffer(generator.bytes(count // 8 * DTYPES[dtype].itemsize), DTYPES[dtype])
    small = generator.choice([-1, 1], count // 4) * 2.0 ** generator.uniform(-40, 3, count // 4)
    parts = [edges, -edges, generator.uniform(low, high, count // 2), small, bits]
    x = np.concatenate([part.astype(DTYPES[dtype]) for part in parts])
    if name in ("log", "log1p"):
        # Below the domain all is NaN: one argument in eight is enough of that.
        x = np.where((x < 0) & (generator.random(len(x)) < 0.875), -x, x)
    if name == "log":
        close = 1 + generator.uniform(-0.5, 0.5, count // 4) ** 3
        x = np.concatenate([x, close.astype(x.dtype)])
    if name == "log1p":
        x = np.concatenate([x, generator.uniform(-1, 0.5, count // 4).astype(x.dtype)])
    return x


@cache
def exact_points(name: str, dtype: str) -> tuple[np.ndarray, Expected]:
    x = points(name, dtype, 20_000)
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
    x, values = approximate_points(name, 100_000 if program.emulated else 1_000_000)
    y = program(f"{name}_f32", x)
    with np.errstate(all="ignore"):
        errors = np.abs(y - values) / np.spacing(np.abs(values).astype("f4"))
    return x[np.argsort(np.nan_to_num(errors, nan=0.0, posinf=0.0))[-200:]]


def check_errors(program: Program, name: str, dtype: str, x: np.ndarray, values: Expected) -> None:
    errors = values.errors(program(f"{name}_{dtype}", x))
    limit = F32_LIMITS[name] if dtype == "f32" else F64_LIMIT
    worst = int(np.argmax(errors))
    assert errors[worst] <= limit, f"{name}_{dtype} at {x[worst]!r}: {errors[worst]:.3f} ulp"


@pytest.mark.parametrize("name", MATHS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_errors_in_units_in_the_last_place(program: Program, name: str, dtype: str):
    check_errors(program, name, dtype, *exact_points(name, dtype))
    if dtype == "f32":
        x = worst_points(program, name)
        check_errors(program, name, dtype, x, expected(name, x, dtype))


# In units of the last place of numbers from 1/2 to 1, which a probability is.
NORMAL_LIMITS = {"f32": {"normal_cdf": 1.7, "normal_pdf": 0.9}, "f64": dict.fromkeys(NORMAL, 1.5)}


@pytest.mark.parametrize("name", NORMAL)
@pytest.mark.parametrize("dtype", DTYPES)
def test_errors_of_the_normal_distribution(program: Program, name: str, dtype: str):
    count = 20_000 if program.emulated or dtype == "f64" else 400_000
    x = np.concatenate(
        [np.random.default_rng(4).uniform(-16, 16, count), np.linspace(-5, 5, count)]
    )
    x = x.astype(DTYPES[dtype])
    wide = widened(x)
    if name == "normal_cdf":
        values = 0.5 * np.array([math.erfc(value) for value in (-wide * math.sqrt(0.5)).tolist()])
    else:
        values = np.exp(-0.5 * wide * wide) / math.sqrt(2 * math.pi)
    errors = np.abs(widened(program(f"{name}_{dtype}", x)) - values) * (
        2.0 / np.finfo(DTYPES[dtype]).eps
    )
    worst = int(np.argmax(errors))
    assert errors[worst] <= NORMAL_LIMITS[dtype][name], f"at {x[worst]!r}: {errors[worst]:.3f}"


# Arguments and results.
SPECIALS = {
    "exp": ([math.inf, -math.inf, 0.0, -0.0, 1e30, -1e30], [math.inf, 0, 1, 1, math.inf, 0]),
    "expm1": ([math.inf, -math.inf, 0.0, -0.0, 1e30], [math.inf, -1, 0.0, -0.0, math.inf]),
    "log": ([math.inf, 0.0, -0.0, 1, -1], [math.inf, -math.inf, -math.inf, 0.0, math.nan]),
    "log1p": ([math.inf, 0.0, -0.0, -1, -1.5], [math.inf, 0.0, -0.0, -math.inf, math.nan]),
    "tanh": ([math.inf, -math.inf, 0.0, -0.0, 1e30, -1e30], [1, -1, 0.0, -0.0, 1, -1]),
    "sigmoid": ([math.inf, -math.inf, 0.0, -0.0, 1e30, -1e30], [1, 0, 0.5, 0.5, 1, 0]),
    "erf": ([math.inf, -math.inf, 0.0, -0.0, 1e30, -1e30], [1, -1, 0.0, -0.0, 1, -1]),
    "softplus": ([math.inf, -math.inf, 1e30, -1e30], [math.inf, 0, 1e30, 0]),
    "normal_cdf": ([math.inf, -math.inf, 0.0, -0.0, 1e30, -1e30], [1, 0, 0.5, 0.5, 1, 0]),
    "normal_pdf": ([math.inf, -math.inf, 1e30, -1e30], [0, 0, 0, 0]),
}


@pytest.mark.parametrize("dtype", DTYPES)
def test_special_values_and_the_sign_of_zero(program: Program, dtype: str):
    for name, (arguments, results) in SPECIALS.items():
        x = np.array([*arguments, math.nan], DTYPES[dtype])
        right = np.array([*results, math.nan], DTYPES[dtype])
        y = program(f"{name}_{dtype}", x)
        np.testing.assert_array_equal(y, right, err_msg=name)
        number = ~np.isnan(right)
        signs = np.signbit(y[number]), np.signbit(right[number])
        np.testing.assert_array_equal(*signs, err_msg=f"signs of {name}")


@pytest.mark.parametrize("isa", [AVX2, NEON], ids=["avx2", "neon"])
@pytest.mark.parametrize("name", (*MATHS, *NORMAL))
def test_f32_bits_are_those_of_avx512(folder: Path, isa: ISA, name: str):
    x = points(name, "f32", 100_000)
    y, other = (build(kind, folder)(f"{name}_f32", x) for kind in (AVX512, isa))
    number = ~(np.isnan(y) & np.isnan(other))
    np.testing.assert_array_equal(y.view("u4")[number], other.view("u4")[number])


def triples(dtype: str) -> list[np.ndarray]:
    """Three arrays with every triple of special values and some others."""
    special = np.array([0.0, -0.0, 1.0, -1.0, 2.5, -3e-39, 3e38, math.inf, -math.inf, math.nan])
    grid = np.meshgrid(special, special, special)
    others = np.random.default_rng(1).normal(size=(3, 4000))
    return [
        np.concatenate([axis.ravel(), other]).astype(DTYPES[dtype])
        for axis, other in zip(grid, others, strict=True)
    ]


# For fma NumPy has nothing in one rounding: it has its own test.
NUMPY = {
    "neg": lambda a, b, c: -a,
    "abs": lambda a, b, c: np.abs(a),
    "sign": lambda a, b, c: np.sign(a),
    "sqrt": lambda a, b, c: np.sqrt(a),
    "copysign": lambda a, b, c: np.copysign(a, b),
    "max": lambda a, b, c: np.maximum(a, b),
    "min": lambda a, b, c: np.minimum(a, b),
    "at_least_1": lambda a, b, c: np.maximum(a, 1),
    "at_most_1": lambda a, b, c: np.minimum(a, 1),
    "lt": lambda a, b, c: a < b,
    "le": lambda a, b, c: a <= b,
    "gt": lambda a, b, c: a > b,
    "ge": lambda a, b, c: a >= b,
    "eq": lambda a, b, c: a == b,
    "is_nan": lambda a, b, c: np.isnan(a),
    "select": lambda a, b, c: np.where(a < 0, b, c),
    "both": lambda a, b, c: (a < b) & (b < c),
    "either": lambda a, b, c: (a < b) | (b < c),
    "not": lambda a, b, c: ~(a < b),
    "minus_zero": lambda a, b, c: a + np.array(-0.0, a.dtype),
    "stream": lambda a, b, c: a,
}
SIGN_OF_ZERO_IS_FREE = ("max", "min", "at_least_1", "at_most_1")


@pytest.mark.parametrize("dtype", DTYPES)
def test_arithmetic_and_comparisons_are_numpys(program: Program, dtype: str):
    arrays = triples(dtype)
    for name, formula in NUMPY.items():
        y = program(f"{name}_{dtype}", *arrays)
        with np.errstate(invalid="ignore"):
            right = formula(*arrays).astype(DTYPES[dtype])
        np.testing.assert_array_equal(y, right, err_msg=name)
        if name not in SIGN_OF_ZERO_IS_FREE:
            number = ~np.isnan(right)
            signs = np.signbit(y[number]), np.signbit(right[number])
            np.testing.assert_array_equal(*signs, err_msg=f"signs of {name}")


def test_fma_rounds_as_the_unit_does(program: Program):
    a, b, c = np.random.default_rng(2).normal(size=(3, 4000)).astype("f4")
    product = a.astype("f8") * b.astype("f8")  # exact
    for name, sign in (("fma", 1), ("fnma", -1)):
        y = program(f"{name}_f32", a, b, c)
        twice = c + np.float32(sign) * (a * b)
        # Two roundings here too, but the first, to 53 digits, decides nothing in these samples.
        once = (c + sign * product).astype("f4")
        np.testing.assert_array_equal(y, once if program.isa.fma else twice)


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
