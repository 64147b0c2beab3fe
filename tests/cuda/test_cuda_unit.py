"""Units of CUDA in the cache: built once, edited by hand, cold and warm."""

from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from compiler_texts import BROKEN, LARGE, TEXT, kernel

from noeira.codegen.cuda.arch import arch
from noeira.codegen.cuda.launches import StageLaunch
from noeira.codegen.embedded import plan_strings
from noeira.codegen.language import CUDA
from noeira.codegen.source import Source
from noeira.errors import CompilerError
from noeira.ir.text.plan import parse_plans
from noeira.runtime.build.cache import Cache
from noeira.runtime.build.compiled import Compiled, Made
from noeira.runtime.build.library import build_library, code_key, library_key, open_library
from noeira.runtime.cuda.builder import CudaBuilder, launches, unit_resources
from noeira.runtime.cuda.compiler import (
    CudaCompiler,
    find_cuda_compiler,
)
from noeira.runtime.cuda_cpu import builder as cuda_cpu_builder
from noeira.runtime.cuda_cpu.builder import CudaCpuBuilder
from noeira.runtime.cuda_cpu.compiler import find_cxx_compiler
from noeira.runtime.cuda_cpu.module import CudaCpuModule

SM_90 = arch("sm_90")


def unit(factor: str = "3.0f") -> Source:
    """A unit with a number that can be told apart in its PTX."""
    return Source(CUDA, "mlp", TEXT.replace("3.0f", factor), "plan")


def test_a_unit_is_built_once_and_kept_with_its_text(nvrtc: CudaCompiler, cache: Cache):
    builder = CudaBuilder(nvrtc, SM_90)
    library = build_library(unit(), builder, cache)
    assert library.built
    assert library.path.name == "unit.cubin"
    assert library.path.read_bytes() == library.binary
    assert library.binary.startswith(b"\x7fELF")
    assert library.text == unit().text
    assert library.plans == "plan"
    assert ".target sm_90" in library.entry.read("unit.ptx").decode()
    assert [one.kernel for one in unit_resources(library.entry)] == ["k00_scale", "k01_one"]
    command = library.entry.read("build.txt").decode()
    assert command.startswith(f"# {nvrtc.version}, sm_90; in this folder:\nnvcc --std=c++17 ")
    assert "--fmad=false" in command
    again = build_library(unit(), builder, Cache(cache.folder))
    assert not again.built
    assert again.binary == library.binary
    warm = open_library(library.key, builder, cache)
    assert warm is not None
    assert warm.binary == library.binary


def with_plans(plans: str, factor: str = "3.0f") -> Source:
    """A unit that carries plans."""
    lines = "".join(f"    {line}\n" for line in plan_strings(plans))
    carried = f'extern "C" __device__ const char noeira_plans[] =\n{lines}    "";\n'
    return Source(CUDA, "mlp", f"{unit(factor).text}// of {plans}\n{carried}", plans)


@pytest.mark.parametrize("target", ["cuda", "cuda-cpu"])
def test_other_plans_are_no_other_code(
    target: str, nvrtc: CudaCompiler, cache: Cache, monkeypatch: pytest.MonkeyPatch
):
    builder = CudaBuilder(nvrtc, SM_90)
    compiler = find_cxx_compiler(cache)
    if target == "cuda-cpu":
        if compiler is None:
            pytest.skip("there is no C++ compiler")
        builder = CudaCpuBuilder(compiler, cache)
    first = build_library(with_plans("one\n"), builder, cache)

    def unexpected(*_: object) -> None:
        raise AssertionError("a compiler came here")

    monkeypatch.setattr(CudaCompiler, "compile", unexpected)
    monkeypatch.setattr(cuda_cpu_builder, "build", unexpected)
    second = build_library(with_plans("another\n"), builder, cache)
    assert second.built and second.key != first.key
    assert second.plans == "another\n" and "another" in second.text
    third = build_library(with_plans("a third\n"), builder, Cache(cache.folder))
    if target == "cuda":
        code = first.binary.removesuffix(b"\0one\n\0")
        assert code != first.binary and second.binary == code + b"\0another\n\0"
        assert third.binary == code + b"\0a third\n\0"
        assert unit_resources(third.entry) == unit_resources(first.entry)
    with pytest.raises(AssertionError, match="a compiler came here"):
        build_library(with_plans("another\n", "4.0f"), builder, cache)


def test_what_decides_a_unit_is_in_its_key(nvrtc: CudaCompiler):
    source, builder = unit(), CudaBuilder(nvrtc, SM_90)
    builders = [
        CudaBuilder(nvrtc, arch("sm_80")),
        CudaBuilder(replace(nvrtc, flags=(*nvrtc.flags, "--use_fast_math")), SM_90),
        CudaBuilder(replace(nvrtc, tool=replace(nvrtc.tool, version="NVRTC 13.9")), SM_90),
        builder.lenient(),
    ]
    keys = {library_key(source, other) for other in [builder, *builders]}
    assert len(keys) == 5
    assert library_key(unit("4.0f"), builder) not in keys


def test_a_unit_that_does_not_compile(nvrtc: CudaCompiler, cache: Cache):
    with pytest.raises(CompilerError) as caught:
        build_library(Source(CUDA, "mlp", BROKEN, "plan"), CudaBuilder(nvrtc, SM_90), cache)
    first, second, *_ = str(caught.value).splitlines()
    assert first == "the CUDA compiler failed on the unit of mlp."
    assert second == 'unit.cu(5): error: identifier "factor" is undefined'
    kept = Path(str(caught.value).rpartition("source:  ")[2])
    assert kept.parent.parent == cache.folder / "failed"
    assert kept.read_text() == BROKEN


def edit(path: Path, old: str, new: str) -> str:
    """Change a file as a person would; gives its new text."""
    text = path.read_text().replace(old, new)
    path.write_text(text)
    return text


def test_an_edited_kernel_is_run_when_asked_for(
    nvrtc: CudaCompiler, cache: Cache, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("NOEIRA_EDITED", "1")
    builder = CudaBuilder(nvrtc, SM_90)
    library = build_library(unit(), builder, cache)
    source = library.entry.path("unit.cu")
    # With a variable that nothing uses: a person may.
    edited = edit(source, "3.0f + 1.0f;", "7.0f;\n    int unused = 1;")
    for opened in (
        build_library(unit(), builder, cache),
        open_library(library.key, builder, cache),
    ):
        assert opened is not None
        assert opened.edited == source
        assert opened.key == library.key
        assert opened.text == edited
        assert "0f40E00000" in opened.entry.read("unit.ptx").decode(), "7.0 is multiplied by"
        assert opened.binary != library.binary
    monkeypatch.delenv("NOEIRA_EDITED")
    assert build_library(unit(), builder, cache).binary == library.binary
    assert source.with_name("unit.cu.edited").read_text() == edited


def test_an_edited_kernel_that_no_longer_compiles(
    nvrtc: CudaCompiler, cache: Cache, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("NOEIRA_EDITED", "1")
    builder = CudaBuilder(nvrtc, SM_90)
    source = build_library(unit(), builder, cache).entry.path("unit.cu")
    edit(source, "f32x4 x =", "f32x4 x = factor +")
    with pytest.raises(CompilerError) as caught:
        build_library(unit(), builder, cache)
    assert str(caught.value) == (
        "the CUDA compiler failed on the unit of mlp.\n"
        'unit.cu(5): error: identifier "factor" is undefined\n'
        "      f32x4 x = factor + ((const f32x4 *)a0)[i];\n"
        "                ^\n\n"
        "  command: nvcc --std=c++17 --fmad=false --ftz=false --prec-div=true --prec-sqrt=true "
        "--ptxas-options=-v --gpu-architecture=sm_90 -cubin -o unit.cubin unit.cu\n"
        f"  source:  {source}"
    )
    assert not (cache.folder / "failed").exists(), "the source is where the person left it"


def test_a_unit_whose_kernel_takes_too_much(nvrtc: CudaCompiler, cache: Cache):
    with pytest.raises(CompilerError, match=r"kernel k: its __shared__ arrays take 80,000 bytes"):
        build_library(Source(CUDA, "mlp", LARGE, "plan"), CudaBuilder(nvrtc, SM_90), cache)


def test_threads_compile_at_the_same_time(nvrtc: CudaCompiler, tmp_path: Path):
    from concurrent.futures import ThreadPoolExecutor

    texts = [unit(f"{number}.5f").text for number in range(6)]
    with ThreadPoolExecutor(3) as pool:
        made = list(pool.map(lambda t: nvrtc.compile(t, "unit.cu", SM_90, tmp_path), texts))
    alone = [nvrtc.compile(text, "unit.cu", SM_90, tmp_path) for text in texts]
    assert [one.cubin for one in made] == [one.cubin for one in alone]


def test_the_warm_path_loads_no_compiler(nvrtc: CudaCompiler, cache: Cache):
    library = build_library(unit(), CudaBuilder(nvrtc, SM_90), cache)
    find_cuda_compiler(cache)
    script = """
import sys, time
from noeira.codegen.cuda.arch import arch
from noeira.runtime.build.library import open_library
from noeira.runtime.build.cache import Cache
from noeira.runtime.cuda.compiler import find_cuda_compiler
from noeira.runtime.cuda.builder import CudaBuilder
began = time.process_time()
cache = Cache(sys.argv[1])
compiler = find_cuda_compiler(cache)
library = open_library(sys.argv[2], CudaBuilder(compiler, arch("sm_90")), cache)
assert library.binary.startswith(b"\\x7fELF")
print(time.process_time() - began)
unwanted = {"ctypes", "networkx", "jinja2", "numpy", "subprocess", "tempfile", "logging"}
assert not unwanted & set(sys.modules), unwanted & set(sys.modules)
"""
    command = [sys.executable, "-c", script, str(cache.folder), library.key]
    seconds = [float(subprocess.check_output(command, text=True)) for _ in range(3)]
    assert min(seconds) < 0.1, seconds


def cold_text(kernels: int) -> str:
    """A unit as large as a program's: a GEMM of 64 sums a thread for every four other kernels."""
    sums = "\n".join(
        f"        acc[{i}][{j}] = __fmaf_rn(left[{i}], right[{j}], acc[{i}][{j}]);"
        for i in range(8)
        for j in range(8)
    )
    gemm = f"""    float acc[8][8] = {{}};
    for (int k = 0; k < 784; k++) {{
        float left[8], right[8];
        for (int i = 0; i < 8; i++) left[i] = y0[k * 64 + i], right[i] = y0[k * 99 + i];
{sums}
    }}
    for (int i = 0; i < 64; i++) y0[threadIdx.x * 64 + i] = expf(acc[i / 8][i % 8]);"""
    point = "y0[threadIdx.x] = tanhf(y0[threadIdx.x]) + log1pf(y0[threadIdx.x + 7]);"
    bodies = [point if number % 4 else gemm for number in range(kernels)]
    texts = [
        kernel(body, "__launch_bounds__(256)").replace(" k(", f" k{number:02}(")
        for number, body in enumerate(bodies)
    ]
    return "".join(texts)


def test_a_programs_unit_is_compiled_in_less_than_five_seconds(nvrtc: CudaCompiler, cache: Cache):
    script = """
import sys, time
began = time.perf_counter()
from pathlib import Path
from noeira.codegen.cuda.arch import arch
from noeira.codegen.language import CUDA
from noeira.codegen.source import Source
from noeira.runtime.build.library import build_library
from noeira.runtime.build.cache import Cache
from noeira.runtime.cuda.compiler import require_cuda_compiler
from noeira.runtime.cuda.builder import CudaBuilder
cache = Cache(sys.argv[1])
builder = CudaBuilder(require_cuda_compiler(cache), arch("sm_90"))
library = build_library(Source(CUDA, "cold", sys.stdin.read(), "plan"), builder, cache)
assert library.built
print(time.perf_counter() - began)
"""
    command = [sys.executable, "-c", script, str(cache.folder)]
    seconds = float(subprocess.check_output(command, input=cold_text(25), text=True))
    assert seconds < 5, seconds


PLAN = """\
// noeira-plan 1
graph @relu.forward {
  input %x: f32[64, 8]
  %relu = relu(%x) : f32[64, 8]   from net: ReLU by trace
  return %relu
}
plan @relu.forward for cuda sm_90 {
  arena 0
  place %x: input %x + 0 size 2048 live 0 to 1
  place %relu: output %relu + 0 size 2048 live 0 to 1
  call %relu: map{grid = 1, block = 256}
}
"""


def test_a_launch_that_does_not_fit(nvrtc: CudaCompiler, cache: Cache):
    builder = CudaBuilder(nvrtc, SM_90)
    source = replace(unit(), parsed=(*parse_plans(PLAN),), symbols=(("k00_scale",),))
    assert list(launches(source)) == [StageLaunch("k00_scale", "map", 1, 256, 0)]
    assert build_library(source, builder, cache).built
    other = replace(unit("4.0f"), parsed=source.parsed, symbols=(("k01_one",),))
    with pytest.raises(CompilerError, match=r"kernel k01_one: it is launched with 256 threads"):
        build_library(other, builder, cache)
    large = parse_plans(PLAN.replace("block = 256", "block = 256, shared = 232960"))
    other = replace(other, parsed=(*large,), symbols=source.symbols)
    assert list(launches(other)) == [StageLaunch("k00_scale", "map", 1, 256, 232_960)]
    with pytest.raises(CompilerError, match=r"it takes 232,960 bytes of shared memory \(0 in"):
        build_library(other, builder, cache)


def test_the_same_text_for_the_cpu(cache: Cache, monkeypatch: pytest.MonkeyPatch):
    compiler = find_cxx_compiler(cache)
    if compiler is None:
        pytest.skip("there is no C++ compiler here")
    fast = CudaCpuBuilder(compiler, cache)
    checked = replace(fast, check=True)
    assert library_key(unit(), fast) != library_key(unit(), checked)
    library = build_library(unit(), fast, cache)
    assert library.built
    assert library.path.name == "unit.so"
    assert library.text == unit().text
    assert not build_library(unit(), fast, cache).built
    assert "-ffp-contract=off" in library.entry.read("build.txt").decode()
    values = np.arange(1024, dtype=np.float32)
    result = np.zeros_like(values)
    loaded = CudaCpuModule(library.path)
    loaded.launch("k00_scale", 1, 256, 0, [None, values.ctypes.data, result.ctypes.data])
    np.testing.assert_array_equal(result, values * 3 + 1)
    monkeypatch.setenv("NOEIRA_EDITED", "1")
    edit(library.entry.path("unit.cu"), "f32x4 x =", "f32x4 x = factor +")
    with pytest.raises(CompilerError) as caught:
        build_library(unit(), fast, cache)
    message = str(caught.value)
    assert message.startswith("the C++ compiler failed on the unit of mlp.\n")
    assert "unit.cu:5" in message
    assert "factor" in message
    assert message.endswith(f"source:  {library.entry.path('unit.cu')}")


def test_what_units_share_is_built_under_no_lock(cache: Cache, monkeypatch: pytest.MonkeyPatch):
    done = list[str]()

    class Builder:
        language, source_name, binary_name = "CUDA", "unit.cu", "unit.bin"
        key_parts, command, head, meta = ("key",), ("none",), "none", dict[str, str]()

        def prepare(self) -> None:
            # The lock of a unit guards all keys that begin alike: here this very one.
            with cache.building(code_key(unit(), self), seconds=5):
                done.append("prepared")

        def make(self, source: Source, folder: Path, compiled: Compiled) -> Made:
            done.append("made")
            return Made({"unit.bin": b"binary"})

        def lenient(self) -> Builder:
            return self

    began = time.monotonic()
    assert build_library(unit(), Builder(), cache).binary == b"binary"
    assert not build_library(unit(), Builder(), cache).built
    assert done == ["prepared", "made"]
    assert time.monotonic() - began < 4
