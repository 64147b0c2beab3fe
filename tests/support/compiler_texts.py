"""Small kernels to compile, and the compilers that there are for them."""

from __future__ import annotations

from pathlib import Path

import pytest

from noeira.errors import CompilerError
from noeira.runtime.cuda.compiler import CudaCompiler
from noeira.runtime.cuda.nvcc import find_nvcc, open_nvcc
from noeira.runtime.cuda.nvrtc import find_libraries, open_nvrtc

TEXT = """\
struct __align__(16) f32x4 { float at[4]; };
extern "C" __global__ void __launch_bounds__(256)
k00_scale(unsigned char *workspace, const float *a0, float *y0) {
    const int i = blockIdx.x * 256 + threadIdx.x;
    f32x4 x = ((const f32x4 *)a0)[i];
    for (int j = 0; j < 4; j++) x.at[j] = x.at[j] * 3.0f + 1.0f;
    ((f32x4 *)y0)[i] = x;
}
extern "C" __global__ void __launch_bounds__(128) k01_one(float *y0) {
    __shared__ float part[128];
    part[threadIdx.x] = 1.0f / y0[threadIdx.x];
    __syncthreads();
    y0[threadIdx.x] = sqrtf(part[127 - threadIdx.x]);
}
"""
BROKEN = TEXT.replace("f32x4 x =", "f32x4 x = factor +")


def kernel(body: str, bounds: str = "") -> str:
    """The text of one kernel."""
    return f'extern "C" __global__ void {bounds} k(float *y0) {{\n    {body}\n}}\n'


LARGE = kernel("__shared__ float part[20000];\n    part[threadIdx.x] = y0[0];\n"
               "    __syncthreads();\n    y0[1] = part[threadIdx.x + 9];")  # fmt: skip


# What ptxas of CUDA 13.0 prints of two kernels and a function that one of them calls.
LOG = """\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'k02_spills' for 'sm_90'
ptxas info    : Function properties for k02_spills
ptxas         .     736 bytes stack frame, 992 bytes spill stores, 1004 bytes spill loads
ptxas info    : Used 32 registers, used 0 barriers, 736 bytes cumulative stack size
ptxas info    : Compile time = 44.940 ms
ptxas info    : Function properties for _Z6helperf
ptxas         .     8 bytes stack frame, 4 bytes spill stores, 4 bytes spill loads
ptxas info    : Compiling entry function 'k01_gemm' for 'sm_90'
ptxas info    : Function properties for k01_gemm
ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 128 registers, used 1 barriers, 8448 bytes smem
ptxas info    : Compile time = 30.2 ms
"""


def nvrtc_or_skip() -> CudaCompiler:
    """The compiler as a library; skips the test without."""
    for library in find_libraries():
        return CudaCompiler(open_nvrtc(library))
    pytest.skip("there is no NVRTC here: pip install nvidia-cuda-nvrtc")


def nvcc_or_skip(folder: Path) -> CudaCompiler:
    """The compiler as a program, tried in a folder; skips the test without."""
    program = find_nvcc()
    if program is None:
        pytest.skip("there is no nvcc here")
    try:
        return CudaCompiler(open_nvcc(program, folder))
    except CompilerError as error:
        pytest.skip(f"the nvcc here cannot be used: {error}")
