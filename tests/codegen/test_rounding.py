"""16-bit floats in generated code: every one is read exactly, and all others are rounded to them as
NumPy and ml_dtypes round, on every vector unit and in CUDA on the CPU.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from c_sweep import CKernels, compiler_or_skip, for_isa
from cuda_sweep import CudaKernels
from needs import needs_nvrtc
from sweep import Case
from vector_maths import FLAGS, arm_compiler, arm_emulator, native_isa

from noeira.codegen.c.isa import AVX2, AVX512, ISA, NEON, PLAIN
from noeira.codegen.c.prelude import prelude
from noeira.codegen.c.target import CTarget
from noeira.codegen.cuda.arch import arch
from noeira.codegen.definitions import identifiers
from noeira.codegen.elements import literal
from noeira.codegen.kernel import kernel_text
from noeira.errors import VerifyError
from noeira.ir.arrays import numpy_dtype, rounded
from noeira.ir.builder import Builder
from noeira.ir.plan import Call
from noeira.ir.samples import Draw
from noeira.ir.types import DTYPES, FLOATS, ROUNDED, TensorType
from noeira.runtime.cuda.compiler import find_cuda_compiler

# What one run of a kernel takes: all numbers of 16 bits, and numbers of f32 about them.
Run = Callable[[Case, list[np.ndarray]], list[np.ndarray]]


def cast_case(given: str, made: str, size: int) -> Case:
    """A cast of so many elements."""
    builder = Builder("cast")
    x = builder.input("x", TensorType(given, (size,)))
    builder.emit("cast", x, dtype=made)
    return Case(f"cast {given} to {made}", builder.nodes[0], (Draw(x.type),))


@cache
def all_numbers(dtype: str) -> np.ndarray:
    """Every number of 16 bits, infinities and NaN too."""
    return np.arange(2**16).astype(np.uint16).view(numpy_dtype(dtype))


@cache
def f32_numbers(dtype: str) -> np.ndarray:
    """Numbers of f32: all that a dtype has, those halfway between them, the next ones above and
    below, and many more. 13 elements less than whole vectors.
    """
    exact = all_numbers(dtype).astype(np.float32).view(np.uint32)
    halfway = exact[:, None] + np.uint32(1 << (15 if dtype == "bf16" else 12))
    near = np.concatenate([exact[:, None], halfway], 1)[:, :, None] + np.arange(-1, 2)
    # Numbers of f16 below its least normal one lie closer: halfway is any multiple of 2^-25.
    small = (np.arange(2**12 + 1) * 2.0**-25).astype(np.float32).view(np.uint32)
    small = small[:, None] + np.arange(-1, 2)
    random = np.random.default_rng(0).integers(0, 2**32, 2**18)
    bits = np.concatenate([near.ravel(), small.ravel(), small.ravel() + 2**31, random])
    return bits.astype(np.uint32).view(np.float32)[: len(bits) // 64 * 64 - 13]


ARM_MAIN = """
#include <stdio.h>
#include <stdlib.h>
int main(void) {
    char *given = malloc(SIZE * 8), *made = malloc(SIZE * 8);
    if (fread(given, GIVEN, SIZE, stdin) != SIZE) return 1;
    kernel(0, 1, NULL, (const void *)given, (void *)made);
    return fwrite(made, MADE, SIZE, stdout) != SIZE;
}
"""


def run_on_arm(case: Case, arrays: list[np.ndarray], folder: Path) -> list[np.ndarray]:
    """The kernel of a cast in a program for Arm."""
    (given,), (made,) = arrays, case.node.outputs
    target, result = CTarget(NEON), numpy_dtype(made.type.dtype)
    kernel = kernel_text(Call(case.node, target.choose(case.node)), target, "kernel")
    source, program = folder / "cast.c", folder / "cast"
    source.write_text(prelude(NEON, identifiers(kernel)) + kernel + ARM_MAIN)
    sizes = {"SIZE": given.size, "GIVEN": given.itemsize, "MADE": result.itemsize}
    defined = [f"-D{name}={size}" for name, size in sizes.items()]
    command = [*arm_compiler(), *FLAGS, *defined, str(source), "-o", str(program)]
    subprocess.run(command, check=True)
    done = subprocess.run(
        [*arm_emulator(), str(program)], input=given.tobytes(), capture_output=True, check=True
    )
    return [np.frombuffer(done.stdout, result)]


@np.errstate(all="ignore")
def check_exact(dtype: str, run: Run) -> None:
    """Reads and rounds everything; NaN is NaN."""
    stored, numbers = all_numbers(dtype), f32_numbers(dtype)
    (read,) = run(cast_case(dtype, "f32", len(stored)), [stored])
    same_numbers(read, stored.astype(np.float32), np.uint32)
    (made,) = run(cast_case("f32", dtype, len(numbers)), [numbers])
    same_numbers(made, rounded(numbers, dtype), np.uint16)
    wide = numbers.astype(np.float64)
    (made,) = run(cast_case("f64", dtype, len(wide)), [wide])
    same_numbers(made, rounded(numbers, dtype), np.uint16)


def same_numbers(got: np.ndarray, want: np.ndarray, bits: type) -> None:
    """The same bits but for those of NaN."""
    number = ~np.isnan(want.astype(np.float64))
    assert np.isnan(got[~number].astype(np.float64)).all()
    np.testing.assert_array_equal(got[number].view(bits), want[number].view(bits))


@pytest.mark.parametrize("dtype", ROUNDED)
@pytest.mark.parametrize("isa", [AVX512, AVX2, PLAIN, NEON], ids=lambda isa: isa.name)
def test_c_reads_and_rounds_exactly(isa: ISA, dtype: str, tmp_path: Path) -> None:
    native = native_isa()
    if isa is NEON and native is not NEON and arm_compiler() and arm_emulator():
        check_exact(dtype, lambda case, arrays: run_on_arm(case, arrays, tmp_path))
        return
    if isa not in (native, PLAIN) and (isa, native) != (AVX2, AVX512):
        pytest.skip(f"this machine has no {isa.name}")
    compiler = for_isa(compiler_or_skip(), isa)

    def run(case: Case, arrays: list[np.ndarray]) -> list[np.ndarray]:
        return CKernels.of(CTarget(isa), [case]).built(compiler).run(case, arrays)

    check_exact(dtype, run)


@pytest.mark.parametrize("dtype", ROUNDED)
def test_cuda_reads_and_rounds_exactly(dtype: str) -> None:
    def run(case: Case, arrays: list[np.ndarray]) -> list[np.ndarray]:
        return CudaKernels.of([case]).built().run(case, arrays)

    check_exact(dtype, run)


@needs_nvrtc
def test_a_cuda_compiler_takes_all_casts(tmp_path: Path) -> None:
    """Of every dtype to every float, in accesses and element by element, without a warning."""
    cases = [cast_case(given, made, 1001) for given in DTYPES for made in FLOATS]
    compiler = find_cuda_compiler()
    assert compiler is not None
    unit = CudaKernels.of(cases)
    made = compiler.compile(unit.text, "casts.cu", arch("sm_90"), tmp_path)
    assert len(made.resources) == len(set(unit.symbols))


LITERALS = {
    ("f32", 1.0): "1.0f",
    ("f64", 0.1): "0.1",
    ("f32", 0.1): "0x1.99999a0000000p-4f",
    ("f64", 1 / 3): "0x1.5555555555555p-2",
    ("f32", float("inf")): "INFINITY",
    ("bf16", 1.0): "0x3f80",
    ("f16", -2.0): "0xc000",
    ("bf16", 1 + 2**-8): "0x3f80",
    ("i32", 3): "3",
    ("i64", 3.0): "3ll",
    ("i64", -(2**63)): "(-9223372036854775807ll - 1)",
    ("i32", -(2**31)): "(-2147483647 - 1)",
    ("bool", True): "1",
}


@pytest.mark.parametrize(("dtype", "value"), LITERALS)
def test_literals_of_every_dtype(dtype: str, value: float) -> None:
    assert literal(value, dtype) == LITERALS[dtype, value]


@pytest.mark.parametrize(
    ("dtype", "value"), [("i32", 0.5), ("u8", 256), ("u8", -1), ("f32", 1e39), ("i64", np.inf)]
)
def test_a_literal_that_there_is_not(dtype: str, value: float) -> None:
    with pytest.raises(VerifyError):
        literal(value, dtype)
