"""What turns plans into CUDA programs for the CPU, in place of a GPU."""

from __future__ import annotations

from noeira.codegen.cuda.arch import DEFAULT_ARCH, Arch, arch
from noeira.ir.choices import NO_CHOICES, Choices
from noeira.runtime.build.cache import open_cache
from noeira.runtime.cuda.toolchain import CudaToolchain
from noeira.runtime.cuda_cpu.builder import CudaCpuBuilder
from noeira.runtime.cuda_cpu.compiler import require_cxx_compiler
from noeira.runtime.cuda_cpu.device import CudaCpuDevice, cuda_cpu_device


def cuda_cpu_toolchain(
    device: CudaCpuDevice | None = None,
    kind: Arch | None = None,
    choices: Choices = NO_CHOICES,
) -> CudaToolchain:
    """For the CPU in place of a kind of GPU, by default the usual one; in check mode if the device
    is. Raises CompilerError without a C++ compiler.
    """
    cache, used = open_cache(), device or cuda_cpu_device()
    builder = CudaCpuBuilder(require_cxx_compiler(cache), cache, used.checked is not None)
    gpu = kind or arch(DEFAULT_ARCH)
    return CudaToolchain("cuda-cpu", gpu, builder, cache, lambda: used, choices)
