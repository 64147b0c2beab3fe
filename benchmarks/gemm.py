"""Measures the GEMM template: GF/s, and the share of the fma peak measured in the same run.

    python benchmarks/gemm.py [M,K,N | M,K,N,nn | M,K,N,nt | M,K,N,tn | M,K,N,tt …]

Without shapes it runs those of an MLP at batch 100, of a small transformer, and squares; `t` says
that an operand is stored transposed. Each shape is built by gcc with OpenMP; a time is the best
of many calls, each between barriers. Results go to the screen only.
"""

from __future__ import annotations

import ctypes
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from noeira.codegen.environment import template
from noeira.codegen.gemm import Gemm, choose_gemm
from noeira.codegen.prelude import identifiers, prelude
from noeira.codegen.target import ISA, isa_from_macros
from noeira.codegen.view import Elementwise, Kernel, Operand, Store

FLAGS = ("-O3", "-march=native", "-std=gnu11", "-ffp-contract=off", "-fno-math-errno")
FLAGS += ("-fno-trapping-math", "-fopenmp", "-shared", "-fPIC")
SHAPES = (
    "100,784,256",
    "100,256,784,nt",
    "784,100,256,tn",
    "1024,384,1536",
    "1024,1536,384,nt",
    "384,1024,1536,tn",
    "512,512,512",
    "1024,1024,1024",
    "2048,2048,2048",
    "100,128,10",
    "1,784,256",
    "1,256,784,nt",
)
THREADS = (1, 2)
ROUNDS = 5
SECONDS_PER_ROUND = 0.02
PEAK_CHAINS = 12

DRIVER = """
#include <omp.h>
double best_time(const int threads, const long calls, const float *a0, const float *a1, float *y0) {
    double best = 1e30;
#pragma omp parallel num_threads(threads)
    for (long call = 0; call < calls; call++) {
#pragma omp barrier
        const double start = omp_get_wtime();
        gemm(omp_get_thread_num(), threads, NULL, a0, a1, y0);
#pragma omp barrier
        const double time = omp_get_wtime() - start;
#pragma omp master
        if (time < best) best = time;
    }
    return best;
}
"""


def main(shapes: Sequence[str]) -> None:
    """Prints a line for each shape."""
    isa = host_isa()
    with tempfile.TemporaryDirectory() as folder:
        peaks = measure_peaks(isa, Path(folder))
        print(f"{isa.name}, peak of f32 multiply-adds: " + describe(peaks, peaks))
        for number, shape in enumerate(shapes):
            m, k, n, kind = parse(shape)
            kernel = product(m, n, k, kind[0] == "t", kind[1] == "t", isa)
            library = build(render(kernel) + DRIVER, isa, Path(folder) / f"gemm{number}")
            rates = {threads: measure(library, kernel, threads) for threads in THREADS}
            lanes = kernel.choice.lanes
            tiles = " ".join(f"{rows}x{vectors * lanes}" for rows, vectors in kernel.choice.tiles)
            print(
                f"{m}x{k}x{n} {kind}".ljust(20),
                describe(rates, peaks),
                f"  tiles {tiles}",
                flush=True,
            )


def parse(shape: str) -> tuple[int, int, int, str]:
    """M, K, N and which operands are stored transposed, from `M,K,N` or `M,K,N,nt`."""
    m, k, n, *kind = shape.split(",")
    return int(m), int(k), int(n), kind[0] if kind else "nn"


def describe(rates: dict[int, float], peaks: dict[int, float]) -> str:
    return "  ".join(f"{n}t {rate:6.1f} GF/s {rate / peaks[n]:4.0%}" for n, rate in rates.items())


def host_isa() -> ISA:
    command = ["gcc", "-march=native", "-dM", "-E", "-x", "c", "/dev/null"]
    macros = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return isa_from_macros(macros)


def product(m: int, n: int, k: int, transpose_a: bool, transpose_b: bool, isa: ISA) -> Kernel:
    """A plain product, without a tail."""

    def operand(name: str, *shape: int) -> Operand:
        return Operand(name, "float", "f32", shape, shape[0] * shape[1])

    a = operand("a0", k, m) if transpose_a else operand("a0", m, k)
    b = operand("a1", n, k) if transpose_b else operand("a1", k, n)
    gemm = Gemm(m, n, k, "a0", "a1", "r0", transpose_a, transpose_b, partial="y0")
    choice = choose_gemm(m, n, k, transpose_b=transpose_b, dtype="f32", isa=isa)
    head, tail = Elementwise("f32"), Elementwise("f32", stores=(Store("y0", "r0"),))
    return Kernel("gemm", (a, b), (operand("y0", m, n),), None, head, tail, gemm, choice)


def render(kernel: Kernel) -> str:
    return template("gemm.c.j2").render(k=kernel)


def build(text: str, isa: ISA, place: Path) -> ctypes.CDLL:
    source, library = place.with_suffix(".c"), place.with_suffix(".so")
    source.write_text(prelude(isa, identifiers(text)) + text)
    command = ["gcc", *FLAGS, str(source), "-o", str(library), "-lm"]
    subprocess.run(command, check=True)
    loaded = ctypes.CDLL(str(library))
    loaded.best_time.restype = ctypes.c_double
    return loaded


def measure(library: ctypes.CDLL, kernel: Kernel, threads: int) -> float:
    """GF/s of the best call."""
    generator = np.random.default_rng(0)
    arrays = [aligned(operand.size) for operand in kernel.inputs + kernel.outputs]
    for array in arrays:
        array[...] = generator.standard_normal(array.size)
    pointers = [ctypes.c_void_p(array.ctypes.data) for array in arrays]
    one = library.best_time(threads, ctypes.c_long(2), *pointers)
    calls = ctypes.c_long(max(3, int(SECONDS_PER_ROUND / one)))
    best = min(library.best_time(threads, calls, *pointers) for _ in range(ROUNDS))
    gemm = kernel.anchor
    return 2e-9 * gemm.m * gemm.n * gemm.k / best


def aligned(size: int) -> np.ndarray:
    """An array on a 64-byte boundary, as in an arena."""
    raw = np.empty(size * 4 + 64, np.uint8)
    start = -raw.ctypes.data % 64
    return raw[start : start + size * 4].view(np.float32)


def measure_peaks(isa: ISA, folder: Path) -> dict[int, float]:
    """GF/s of independent chains of fma that stay in registers, for each number of threads."""
    chains = range(PEAK_CHAINS)
    steps = 20_000
    body = f"""
#include <omp.h>
double best_time(const int threads, const long calls, float *result) {{
    double best = 1e30;
#pragma omp parallel num_threads(threads)
    for (long call = 0; call < calls; call++) {{
        f32v x = set_f32(0.5f), y = set_f32(call);
        f32v {", ".join(f"s{i} = set_f32({i})" for i in chains)};
#pragma omp barrier
        const double start = omp_get_wtime();
        for (long step = 0; step < {steps}; step++) {{
            {" ".join(f"s{i} = fma_f32(s{i}, x, y);" for i in chains)}
        }}
#pragma omp barrier
        const double time = omp_get_wtime() - start;
        const f32v total = {" + ".join(f"s{i}" for i in chains)};
#pragma omp critical
        {{
            *result += total[0];
            if (time < best) best = time;
        }}
    }}
    return best;
}}
"""
    library = build(body, isa, folder / "peak")
    result = ctypes.c_float()
    flops = 2.0 * PEAK_CHAINS * steps * isa.lanes("f32")
    peaks = {}
    for threads in THREADS:
        arguments = threads, ctypes.c_long(50), ctypes.byref(result)
        best = min(library.best_time(*arguments) for _ in range(ROUNDS))
        peaks[threads] = threads * flops * 1e-9 / best
    return peaks


if __name__ == "__main__":
    main(sys.argv[1:] or SHAPES)
