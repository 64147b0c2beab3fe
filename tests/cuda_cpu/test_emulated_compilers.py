"""Units for the CPU: their compilers, how kernels are found in a text, and what is refused."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from emulated_units import MISTAKES, ORDERS, TEXT, floats, line_of, made, run, tells_line
from needs import needs_cxx

from noeira.errors import CompilerError, KernelFault
from noeira.runtime.build import compiler_search
from noeira.runtime.cuda_cpu import shared_library
from noeira.runtime.cuda_cpu.compiler import find_cxx_compiler, require_cxx_compiler
from noeira.runtime.cuda_cpu.shared_library import build
from noeira.runtime.cuda_cpu.text import find_kernels, host_text

pytestmark = needs_cxx


def test_a_compilers_message_has_the_texts_own_lines(folder: Path):
    broken = TEXT.replace("float sums[4] = {};", "float sums[4] = oops;")
    line = next(n for n, text in enumerate(broken.splitlines(), 1) if "oops" in text)
    with pytest.raises(CompilerError, match=rf"unit\.cu cannot be built:\n(.*\n)*unit\.cu:{line}:"):
        made(broken, folder)


def test_variables_that_have_no_room_on_a_stack_are_refused(folder: Path):
    text = (
        'extern "C" __global__ void k(float *x) {\n'
        "    float big[40000];\n"
        "    for (int i = 0; i < 40000; i++) big[i] = x[i % 64];\n"
        "    __syncthreads();\n"
        "    x[threadIdx.x] = big[threadIdx.x * 100];\n"
        "}\n"
    )
    with pytest.raises(CompilerError, match=r"unit\.cu:\d+:.*frame size .*160\d{3}"):
        build(text, folder)


def test_a_compiler_that_cannot_check_is_told_so(folder: Path):
    compiler = replace(require_cxx_compiler(), check_flags=())
    with pytest.raises(CompilerError, match="cannot mark memory accesses"):
        build(TEXT, folder, check=True, compiler=compiler)


def test_kernels_are_found_however_they_are_written():
    text = """
    // extern "C" __global__ void commented(float *x) {}
    const char *s = "extern \\"C\\" __global__ void quoted(float *x) { }";
    #define KERNEL(n) extern "C" __global__ void n() { if (1) {
    __global__ void with_mangled_name(float *x) { *x = 0; }
    extern "C" __global__ void declared(float *x);
    template <int N> __global__ void of_a_template(float *x) { *x = N; }
    extern "C"   __global__
      /* why not */ void  __launch_bounds__ (128,
        2) spread // here
      (float *x) { if (*x > 0) { *x = 0; } }
    extern "C" { static int helper() { return 1; }
    __launch_bounds__(32) __global__ static void inside(float *x) { for (;;) { } }
    struct S { int a; };
    }
    extern "C" __attribute__((used)) __global__ void last() {}
    """
    assert find_kernels(text) == ("spread", "inside", "last")


def test_dynamic_shared_memory_is_found_however_it_is_written():
    text = """extern __shared__ float a[];
    extern __align__(16) __shared__ unsigned char b[ ], c[];
    void f() { extern __shared__ __align__(16)
      double d[]; __shared__ float e[3]; }
    // extern __shared__ float g[];"""
    host = host_text(text, "a.cu").text
    assert host.count('__asm__("noeira_dynamic")') == 4
    assert "double d[] __asm__" in host
    assert host.splitlines()[1:6] and len(host.splitlines()) == len(text.splitlines()) + 2


def test_the_portable_switch(folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(shared_library, "RUNTIME_FLAGS", ("-O2", "-DNOEIRA_PORTABLE"))
    unit = made(TEXT, folder, check=True)
    for order, seed in ORDERS:
        a, b, c = floats(4096), floats(4096, 1), floats(4096, 2)
        run(unit, "gemm", 4, 256, [a, b], [c], shared=32 * 68 * 4, order=order, seed=seed)
        exact = a.reshape(64, 64).astype(np.float64) @ b.reshape(64, 64)
        np.testing.assert_allclose(c.reshape(64, 64), exact, rtol=1e-4, atol=1e-5)
        with pytest.raises(KernelFault, match="out of bounds"):
            run(unit, "beyond", 1, 64, [floats(64)], [floats(64)], order=order, seed=seed)


@pytest.mark.parametrize("name", ["clang++", pytest.param("zig", marks=pytest.mark.slow)])
def test_other_compilers(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    import importlib.util
    import sys

    if name == "zig":
        if importlib.util.find_spec("ziglang") is None:
            pytest.skip("ziglang is not installed")
        monkeypatch.setenv("CXX", f"{sys.executable} -m ziglang c++")
    elif shutil.which(name) is None:
        pytest.skip(f"there is no {name}")
    else:
        monkeypatch.setenv("CXX", name)
    unit = made(TEXT, tmp_path, check=True)
    a, b, c = floats(4096), floats(4096, 1), floats(4096, 2)
    run(unit, "gemm", 4, 256, [a, b], [c], shared=32 * 68 * 4)
    for mistake, kind, *_ in MISTAKES:
        if mistake == "misaligned":
            continue  # clang looks at members of a structure, not at copies of all of it
        given = [None] if mistake == "through_null" else [floats(64)] * (mistake in TAKES_INPUT)
        grid = 2 if mistake == "race_of_blocks" else 1
        with pytest.raises(KernelFault) as caught:
            run(unit, mistake, grid, 64, given, [floats(64)], 256)
        assert caught.value.kind == kind, caught.value
        assert tells_line(caught.value, line_of(mistake)), caught.value


TAKES_INPUT = {name for name, _, inputs, *_ in MISTAKES if inputs == 1}


def test_the_identity_tells_runtimes_apart(monkeypatch: pytest.MonkeyPatch):
    compiler = find_cxx_compiler()
    assert compiler is not None
    first = shared_library.cuda_cpu_identity(compiler)
    monkeypatch.setattr(shared_library, "FAST_FLAGS", ("-O0",))
    assert shared_library.cuda_cpu_identity(compiler) != first


def test_no_compiler_and_a_useless_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("CXX", "noeira-no-such-compiler -x")
    with pytest.raises(CompilerError, match="there is no program noeira-no-such-compiler"):
        require_cxx_compiler()
    monkeypatch.setenv("CXX", "false")
    with pytest.raises(CompilerError, match="CXX is false, which cannot be used"):
        require_cxx_compiler()
    monkeypatch.delenv("CXX")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(compiler_search, "ziglang_program", lambda: None)
    assert find_cxx_compiler() is None
    with pytest.raises(CompilerError) as caught:
        require_cxx_compiler()
    for words in ("no C++ compiler was found", "apt install g++", "pip install ziglang", "CXX"):
        assert words in str(caught.value)
