"""What tests need of the machine: marks that skip them, with the reason, where it is not there.

The machine is asked when the first such test is run, not when tests are collected.
"""

from __future__ import annotations

from functools import cache

import pytest

from noeira.runtime.c.compiler import find_compiler
from noeira.runtime.cuda.compiler import find_cuda_compiler
from noeira.runtime.cuda_cpu.compiler import find_cxx_compiler

PROBES = {
    "C compiler": find_compiler,
    "C++ compiler": find_cxx_compiler,
    "CUDA compiler": find_cuda_compiler,
}
needs_compiler = pytest.mark.needs("C compiler")
needs_cxx = pytest.mark.needs("C++ compiler")
needs_nvrtc = pytest.mark.needs("CUDA compiler")


@cache
def is_there(what: str) -> bool:
    """Whether the machine has it."""
    return PROBES[what]() is not None
