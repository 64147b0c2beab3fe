"""The prelude of CUDA units on the CPU: functions against exact values, comparisons and minima
against NumPy, sums over warps and blocks in their order.

The functions of the device's own library are here those of the host's: what is tested is what the
prelude makes of them.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from maths_checks import check_errors, check_fma, check_normal, check_numpys, check_specials, points
from vector_maths import ANGLES, CTYPES, DTYPES, EXPRESSIONS, MATHS, NORMAL, exact, expected

from noeira.codegen.cuda.prelude import device_prelude
from noeira.codegen.definitions import identifiers
from noeira.runtime.cuda_cpu.compiler import find_cxx_compiler
from noeira.runtime.cuda_cpu.module import CudaCpuModule
from noeira.runtime.cuda_cpu.shared_library import build

BLOCK = 128
WARP = 32
# Units in the last place.
LIMIT = 2.5
NOT_HERE = ("sum", "maximum", "any", "stream")
REDUCTIONS = {
    "warp_sum": "warp_sum_T(a)",
    "warp_max": "warp_max_T(a)",
    "block_sum": "block_sum_T(a, (CTYPE *)shared)",
    "block_max": "block_max_T(a, (CTYPE *)shared)",
}
KERNEL = """
extern "C" __global__ void apply_NAME_T(
    const CTYPE *a0, const CTYPE *a1, const CTYPE *a2, CTYPE *y0
) {
    const int item = blockIdx.x * blockDim.x + threadIdx.x;
    const Tv a = a0[item], b = a1[item], c = a2[item];
    y0[item] = EXPRESSION;
}
"""


def unit_text() -> str:
    """A kernel for each function and dtype, over the prelude."""
    expressions = {name: f"{name}_T(a)" for name in (*MATHS, *ANGLES, *NORMAL)}
    expressions |= {k: v for k, v in EXPRESSIONS.items() if k not in NOT_HERE} | REDUCTIONS
    kernels = ""
    for dtype, ctype in CTYPES.items():
        for name, expression in expressions.items():
            text = KERNEL.replace("NAME", name).replace("EXPRESSION", expression)
            text = text.replace("CTYPE", ctype)
            kernels += re.sub(r"\bT(?=v\b)|(?<=_)T\b", dtype, text)
    return device_prelude(identifiers(kernels)) + kernels


class Program:
    """The built unit."""

    def __init__(self, folder: Path) -> None:
        self.unit = CudaCpuModule(build(unit_text(), folder))

    def __call__(self, name: str, *arrays: np.ndarray) -> np.ndarray:
        """The kernel `apply_NAME` of arrays of equal length."""
        size = len(arrays[0])
        padding = np.ones(-size % BLOCK, arrays[0].dtype)
        given = [np.concatenate([array, padding]) for array in arrays]
        given += given[:1] * (3 - len(given))
        result = np.empty_like(given[0])
        pointers = [array.ctypes.data for array in (*given, result)]
        room = BLOCK // WARP * result.itemsize
        self.unit.launch(f"apply_{name}", len(result) // BLOCK, BLOCK, room, pointers)
        return result[:size]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Program:
    if find_cxx_compiler() is None:
        pytest.skip("there is no C++ compiler")
    return Program(tmp_path_factory.mktemp("cuda-maths"))


@pytest.mark.parametrize("name", (*MATHS, *ANGLES))
@pytest.mark.parametrize("dtype", DTYPES)
def test_errors_in_units_in_the_last_place(program: Program, name: str, dtype: str) -> None:
    x = points(name, dtype, 2000)
    check_errors(program, name, x, expected(name, x, dtype), LIMIT)


@pytest.mark.parametrize("name", NORMAL)
@pytest.mark.parametrize("dtype", DTYPES)
def test_errors_of_the_normal_distribution(program: Program, name: str, dtype: str) -> None:
    x = np.linspace(-16, 16, 2001).astype(DTYPES[dtype])
    check_normal(program, name, x, lambda v: float(1 - exact("erf", v)))


@pytest.mark.parametrize("dtype", DTYPES)
def test_special_values_and_the_sign_of_zero(program: Program, dtype: str) -> None:
    check_specials(program, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_arithmetic_and_comparisons_are_numpys(program: Program, dtype: str) -> None:
    check_numpys(program, dtype, without=NOT_HERE)


def test_fma_rounds_once(program: Program) -> None:
    check_fma(program, once=True)


@pytest.mark.parametrize("dtype", DTYPES)
def test_reductions_over_warps_and_blocks(program: Program, dtype: str) -> None:
    x = np.random.default_rng(3).normal(size=(16, BLOCK // WARP, WARP)).astype(DTYPES[dtype])
    sums = x
    for distance in (16, 8, 4, 2, 1):
        sums = sums + sums[..., np.arange(WARP) ^ distance]
    total = sums[:, 0]
    for warp in range(1, BLOCK // WARP):
        total = total + sums[:, warp]
    x[0, :, 7] = np.nan
    flat = x.ravel()
    clean = np.where(np.isnan(x), 0, x).ravel()
    for name, want in (("warp_sum", sums), ("block_sum", np.repeat(total[:, None], 4, 1))):
        y = program(f"{name}_{dtype}", flat).reshape(x.shape)
        np.testing.assert_array_equal(y[1:], want[1:], err_msg=name)
        assert np.isnan(y[0]).all()
    greatest = np.nanmax(x, axis=-1, keepdims=True)
    for name, want in (("warp_max", greatest), ("block_max", greatest.max(1, keepdims=True))):
        y = program(f"{name}_{dtype}", flat).reshape(x.shape)
        np.testing.assert_array_equal(y, np.broadcast_to(want, x.shape), err_msg=name)
    assert np.isfinite(program(f"warp_sum_{dtype}", clean)).all()


def test_a_unit_gets_only_what_it_uses() -> None:
    text = device_prelude(identifiers("// tanh_f32\ny0[0] = softplus_f32(a0[0]);"))
    for name in ("softplus_f32", "log1p_f32", "exp_f32", "at_least_f32"):
        assert f" {name}(" in text
    for name in ("tanh_f32", "block_sum_f32", "f64", "philox", "bytes16"):
        assert name not in text
