"""What tests need of the machine: marks that skip them, with the reason, where it is not there."""

from __future__ import annotations

import pytest

from noeira.runtime.c.compiler import find_compiler
from noeira.runtime.cuda.compiler import find_cuda_compiler
from noeira.runtime.cuda_cpu.compiler import find_cxx_compiler

needs_compiler = pytest.mark.skipif(find_compiler() is None, reason="there is no C compiler")
needs_cxx = pytest.mark.skipif(find_cxx_compiler() is None, reason="there is no C++ compiler")
needs_nvrtc = pytest.mark.skipif(find_cuda_compiler() is None, reason="there is no CUDA compiler")
