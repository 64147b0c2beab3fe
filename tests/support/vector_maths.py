"""What the tests of the vector prelude share: programs that apply it, exact values, errors in ulp.

A prelude is tested through a small program, one a kind of vector unit, that reads arrays from
stdin, applies one named function and writes the result to stdout: so an emulator can run it too.
"""

from __future__ import annotations

import importlib.util
import math
import platform
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
import pytest

from noeira.codegen.c.isa import AVX2, AVX512, ISA, NEON, PLAIN, isa_from_macros
from noeira.codegen.c.prelude import prelude
from noeira.codegen.definitions import identifiers

DTYPES = {"f32": np.dtype("f4"), "f64": np.dtype("f8")}
CTYPES = {"f32": "float", "f64": "double"}
MATHS = ("exp", "expm1", "log", "log1p", "tanh", "sigmoid", "erf", "softplus")
# By the C library, whose bits may differ from processor to processor.
ANGLES = ("sin", "cos")
# Their error is an absolute one.
NORMAL = ("normal_cdf", "normal_pdf")

# What a test program computes from the vectors a, b and c, besides functions by their names.
EXPRESSIONS = {
    "neg": "-a",
    "abs": "abs_T(a)",
    "sign": "sign_T(a)",
    "sqrt": "sqrt_T(a)",
    "floor": "floor_T(a)",
    "copysign": "copysign_T(a, b)",
    "fma": "fma_T(a, b, c)",
    "fnma": "fnma_T(a, b, c)",
    "max": "max_T(a, b)",
    "min": "min_T(a, b)",
    "at_least_1": "at_least_T(a, set_T(1))",
    "at_most_1": "at_most_T(a, set_T(1))",
    "lt": "select_T(lt_T(a, b), set_T(1), set_T(0))",
    "le": "select_T(le_T(a, b), set_T(1), set_T(0))",
    "gt": "select_T(gt_T(a, b), set_T(1), set_T(0))",
    "ge": "select_T(ge_T(a, b), set_T(1), set_T(0))",
    "eq": "select_T(eq_T(a, b), set_T(1), set_T(0))",
    "is_nan": "select_T(is_nan_T(a), set_T(1), set_T(0))",
    "select": "select_T(lt_T(a, set_T(0)), b, c)",
    "both": "select_T(and_T(lt_T(a, b), lt_T(b, c)), set_T(1), set_T(0))",
    "either": "select_T(or_T(lt_T(a, b), lt_T(b, c)), set_T(1), set_T(0))",
    "not": "select_T(not_T(lt_T(a, b)), set_T(1), set_T(0))",
    "sum": "set_T(sum_T(a))",
    "maximum": "set_T(maximum_T(a))",
    "minus_zero": "a + set_T(-0.0)",
    "any": "any_T(lt_T(a, set_T(0))) ? set_T(1) : set_T(0)",
    "stream": "(stream_T((CTYPE *)result + i, a), stream_end_T(), load_T((CTYPE *)result + i))",
}

APPLY = """
static void apply_NAME_T(const void *const *arrays, void *result, long n) {
    for (long i = 0; i < n; i += LANES) {
        const Tv a = load_T((const CTYPE *)arrays[0] + i);
        const Tv b = load_T((const CTYPE *)arrays[1] + i);
        const Tv c = load_T((const CTYPE *)arrays[2] + i);
        (void)b;
        (void)c;
        store_T((CTYPE *)result + i, EXPRESSION);
    }
}
"""

# Loads and stores at the end of a page that a page without access follows; 0 if all is well.
PARTS = """
static int check_parts_T(char *page_end) {
    for (int n = 1; n < LANES; n++) {
        CTYPE whole[LANES], *edge = (CTYPE *)page_end - n;
        for (int lane = 0; lane < n; lane++) edge[lane] = (CTYPE)(lane + 1);
        const Tv v = load_T_part(edge, n);
        store_T(whole, v);
        for (int lane = 0; lane < LANES; lane++) {
            if (whole[lane] != (CTYPE)(lane < n ? lane + 1 : 0)) return 1;
        }
        store_T_part(edge, v + v, n);
        for (int lane = 0; lane < n; lane++) {
            if (edge[lane] != (CTYPE)(2 * (lane + 1))) return 2;
        }
        for (int lane = 0; lane < LANES; lane++) whole[lane] = -1;
        store_T_part(whole, v, n);
        for (int lane = 0; lane < LANES; lane++) {
            if (whole[lane] != (CTYPE)(lane < n ? lane + 1 : -1)) return 3;
        }
    }
    return 0;
}
"""

# `program NAME ARRAYS` reads ARRAYS arrays of equal length; `program parts` checks partial access.
MAIN = """
static const struct {
    const char *name;
    void (*apply)(const void *const *, void *, long);
    int size;
} functions[] = {
    TABLE,
};

int main(int count, char **words) {
    if (count == 2) {
        const size_t page = (size_t)sysconf(_SC_PAGESIZE);
        const int flags = MAP_PRIVATE | MAP_ANONYMOUS;
        char *pages = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, flags, -1, 0);
        if (pages == MAP_FAILED || mprotect(pages + page, page, PROT_NONE)) return 9;
        return check_parts_f32(pages + page) + 3 * check_parts_f64(pages + page);
    }
    const size_t arrays = (size_t)atoi(words[2]), most = (size_t)1 << 26;
    char *bytes = malloc(most), *result = malloc(most);
    const size_t total = fread(bytes, 1, most, stdin), each = total / arrays;
    const void *starts[3];
    for (size_t k = 0; k < 3; k++) starts[k] = bytes + (k < arrays ? k : 0) * each;
    for (size_t k = 0; k < sizeof functions / sizeof functions[0]; k++) {
        if (strcmp(functions[k].name, words[1])) continue;
        functions[k].apply(starts, result, (long)each / functions[k].size);
        return fwrite(result, 1, each, stdout) != each;
    }
    return 8;
}
"""


def program_source(isa: ISA) -> str:
    """The C text of the test program for `isa`."""
    expressions = {name: f"{name}_T(a)" for name in (*MATHS, *ANGLES, *NORMAL)} | EXPRESSIONS
    pieces, table = [], []
    for dtype, ctype in CTYPES.items():
        for name, expression in expressions.items():
            text = APPLY.replace("NAME", name).replace("EXPRESSION", expression)
            pieces.append(_typed(text, dtype, ctype))
            table.append(f'{{"{name}_{dtype}", apply_{name}_{dtype}, sizeof({ctype})}}')
        pieces.append(_typed(PARTS, dtype, ctype))
    pieces.append(MAIN.replace("TABLE", ",\n    ".join(table)))
    kernels = "".join(pieces)
    headers = ("stdio.h", "stdlib.h", "string.h", "sys/mman.h", "unistd.h")
    includes = "".join(f"#include <{header}>\n" for header in headers)
    return includes + prelude(isa, identifiers(kernels)) + kernels


def _typed(text: str, dtype: str, ctype: str) -> str:
    """`text` with f32 or f64 for each T."""
    text = text.replace("LANES", f"{dtype.upper()}_LANES").replace("CTYPE", ctype)
    return re.sub(r"\bT(?=v\b)|(?<=_)T(?=\b|_part\b)", dtype, text)


FLAGS = ["-O3", "-std=gnu11", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math"]
FLAGS += ["-Wall", "-Wextra", "-Werror"]
X86_FLAGS = {
    AVX512: ["-mavx512f", "-mavx512vl", "-mavx512dq", "-mavx512bw", "-mavx2", "-mfma"],
    AVX2: ["-mavx2", "-mfma"],
    PLAIN: [],
}


def c_compiler() -> str | None:
    """The machine's own C compiler."""
    return shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")


def zig_compiler() -> list[str] | None:
    """The command of the clang in the package ziglang, which also builds for other processors."""
    found = importlib.util.find_spec("ziglang")
    return [sys.executable, "-m", "ziglang", "cc"] if found else None


def arm_compiler() -> list[str]:
    """The command that builds programs for Arm: gcc, or zig, which builds its libc first."""
    gcc, zig = shutil.which("aarch64-linux-gnu-gcc"), zig_compiler()
    if gcc is not None:
        return [gcc, "-static"]
    return [*zig, "-target", "aarch64-linux-musl", "-static"] if zig else []


def arm_emulator() -> list[str]:
    """The command that runs programs for Arm."""
    found = shutil.which("qemu-aarch64") or shutil.which("qemu-aarch64-static")
    return [found] if found else []


@cache
def native_isa() -> ISA:
    """The kind of this machine's vector unit."""
    compiler = c_compiler()
    if compiler is None:
        return PLAIN
    command = [compiler, "-march=native", "-dM", "-E", "-x", "c", "/dev/null"]
    return isa_from_macros(subprocess.run(command, capture_output=True, text=True).stdout)


def is_x86() -> bool:
    """Whether this machine is an x86-64 one."""
    return platform.machine() in ("x86_64", "AMD64")


@dataclass(frozen=True)
class Program:
    """A built test program and the command that runs it."""

    isa: ISA
    command: tuple[str, ...]
    emulated: bool

    def __call__(self, name: str, *arrays: np.ndarray) -> np.ndarray:
        """The function of that name, such as `exp_f32`, of arrays of equal length."""
        n = len(arrays[0])
        padding = np.ones(-n % 16, arrays[0].dtype)
        data = b"".join(np.concatenate([array, padding]).tobytes() for array in arrays)
        command = [*self.command, name, str(len(arrays))]
        done = subprocess.run(command, input=data, capture_output=True, check=True)
        return np.frombuffer(done.stdout, arrays[0].dtype)[:n]


@lru_cache
def build(isa: ISA, folder: Path) -> Program:
    """The test program for `isa`; skips the test where it cannot be built or run."""
    source, program = folder / f"{isa.name}.c", folder / isa.name
    source.write_text(program_source(isa), encoding="utf-8")
    native, compiler = native_isa(), c_compiler()
    command, runner = [], []
    if isa in (native, PLAIN) or (isa is AVX2 and native is AVX512):
        if compiler is None:
            pytest.skip("there is no C compiler")
        # `plain` must not depend on the machine; Arm needs no flags.
        command = [compiler, *(X86_FLAGS[isa] if is_x86() else [])]
    elif isa is NEON:
        command, runner = arm_compiler(), arm_emulator()
        if not command:
            pytest.skip("to build Arm programs install the package ziglang or a cross gcc")
        if not runner:
            pytest.skip("to run Arm programs install qemu-aarch64 (Debian: qemu-user-static)")
    else:
        pytest.skip(f"this machine has no {isa.name}")
    subprocess.run([*command, *FLAGS, str(source), "-o", str(program), "-lm"], check=True)
    return Program(isa, (*runner, str(program)), emulated=bool(runner))


# Arguments of exp are cut here, where the results are long 0 and infinity in both dtypes.
FAR = 20_000


def exact(name: str, x: float) -> Any:
    """The function at x as an mpmath number of 110 bits, or an infinity or NaN."""
    mp = mpmath.mp
    mp.prec = 110
    if math.isnan(x) or (name == "log" and x < 0) or (name == "log1p" and x < -1):
        return mp.nan
    if name in ("log", "log1p"):
        pole = 0 if name == "log" else -1
        return -mp.inf if x == pole else getattr(mp, name)(mp.mpf(x))
    if name in ("tanh", "erf"):
        return getattr(mp, name)(mp.mpf(min(max(x, -1000.0), 1000.0)))
    if name in ANGLES:
        return getattr(mp, name)(mp.mpf(x)) if math.isfinite(x) else mp.nan
    near = mp.mpf(min(max(x, -FAR), FAR))
    if name == "sigmoid":
        return 1 / (1 + mp.exp(-near))
    if name == "softplus":
        return mp.log1p(mp.exp(near)) if x < 0 else mp.mpf(x) + mp.log1p(mp.exp(-near))
    return mp.inf if x == math.inf else getattr(mp, name)(near)


@dataclass(frozen=True)
class Expected:
    """Exact values: in units of 2^exponent, the last place of `dtype`, the sum of two float64."""

    dtype: str
    exponent: np.ndarray
    high: np.ndarray
    low: np.ndarray

    def errors(self, y: np.ndarray) -> np.ndarray:
        """The distance of `y` in ulp; infinite where NaN or an exact infinity is amiss."""
        digits, _, top = _format(self.dtype)
        scaled = np.ldexp(widened(y), -self.exponent)
        # Infinity stands for the number after the greatest: right if that is what was rounded to.
        beyond = np.isinf(y) & (self.exponent == top) & np.isfinite(self.high)
        scaled = np.where(beyond, np.copysign(2.0**digits, y), scaled)
        with np.errstate(invalid="ignore"):
            distance = np.abs(scaled - self.high - self.low)
        same = (np.isnan(y) & np.isnan(self.high)) | (np.isinf(self.high) & (y == self.high))
        return np.where(same, 0.0, np.where(np.isnan(distance), np.inf, distance))


def _format(dtype: str) -> tuple[int, int, int]:
    """Significant digits, and the exponents of the least and the greatest last place."""
    return (24, -149, 104) if dtype == "f32" else (53, -1074, 971)


def widened(x: np.ndarray) -> np.ndarray:
    """`x` in f64, without a word about signalling NaNs."""
    with np.errstate(invalid="ignore"):
        return x.astype("f8")


def expected(name: str, x: np.ndarray, dtype: str) -> Expected:
    """The exact values of the function at every x."""
    digits, least, top = _format(dtype)
    exponent = np.zeros(len(x), "i4")
    high, low = np.zeros(len(x)), np.zeros(len(x))
    for i, value in enumerate(widened(x).tolist()):
        r = exact(name, value)
        if not mpmath.isfinite(r):
            high[i] = float(r)
            continue
        exponent[i] = min(max(mpmath.frexp(r)[1] - digits, least), top) if r else least
        scaled = mpmath.ldexp(r, int(-exponent[i]))
        if abs(scaled) > 2**digits:
            scaled = mpmath.sign(r) * 2**digits
        high[i] = float(scaled)
        low[i] = float(scaled - high[i])
    return Expected(dtype, exponent, high, low)
