"""CUDA compiled without a driver: machine code, PTX, errors, and how compilers are found."""

from __future__ import annotations

import os
import re
import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from compiler_texts import BROKEN, LARGE, LOG, TEXT, kernel, nvcc_or_skip

from noeira.codegen.cuda.arch import ARCHS, arch
from noeira.errors import CompilerError
from noeira.runtime.build.cache import Cache
from noeira.runtime.cuda import compiler as cuda_compiler
from noeira.runtime.cuda import toolkit as cuda_toolkit
from noeira.runtime.cuda.compiler import (
    CudaCompiler,
    find_cuda_compiler,
    require_cuda_compiler,
)
from noeira.runtime.cuda.messages import error_text, warning_text
from noeira.runtime.cuda.nvcc import find_nvcc, open_nvcc
from noeira.runtime.cuda.nvrtc import Nvrtc, find_libraries

SM_90 = arch("sm_90")


@pytest.fixture(scope="module")
def nvcc(tmp_path_factory: pytest.TempPathFactory) -> CudaCompiler:
    return nvcc_or_skip(tmp_path_factory.mktemp("nvcc"))


@pytest.fixture(params=["nvrtc", "nvcc"])
def compiler(request: pytest.FixtureRequest) -> CudaCompiler:
    return request.getfixturevalue(request.param)


def test_machine_code_and_ptx_without_a_driver(compiler: CudaCompiler, tmp_path: Path):
    made = compiler.compile(TEXT, "unit.cu", SM_90, tmp_path)
    assert made.cubin.startswith(b"\x7fELF")
    assert made.binary == made.cubin
    assert ".target sm_90" in made.ptx
    # A struct of four floats, aligned to 16 bytes, is one access.
    assert re.search(r"ld\.global(\.nc)?\.v4\.[fbu]32", made.ptx)
    assert re.search(r"st\.global\.v4\.[fbu]32", made.ptx)
    scale, one = made.resources
    assert (scale.kernel, scale.block, scale.static_shared, scale.spills) == (
        "k00_scale",
        256,
        0,
        0,
    )
    assert (one.kernel, one.block, one.static_shared, one.barriers) == ("k01_one", 128, 512, 1)
    assert 0 < scale.registers < 64
    assert compiler.compile(TEXT, "unit.cu", SM_90, tmp_path).cubin == made.cubin


def test_every_operation_rounds_on_its_own(compiler: CudaCompiler, tmp_path: Path):
    ptx = compiler.compile(TEXT, "unit.cu", SM_90, tmp_path).ptx
    assert "fma" not in ptx.partition("k01_one")[0], "a product and a sum are not contracted"
    assert "div.rn.f32" in ptx or "rcp.rn.f32" in ptx
    assert "sqrt.rn.f32" in ptx
    assert ".ftz" not in ptx
    assert "approx" not in ptx


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name == "sm_80" else pytest.mark.slow)
        for name in ARCHS
        if name != "sm_90"
    ],
)
def test_every_architecture(nvrtc: CudaCompiler, name: str, tmp_path: Path):
    made = nvrtc.compile(TEXT, "unit.cu", arch(name), tmp_path)
    assert made.cubin.startswith(b"\x7fELF")
    assert f".target {name}" in made.ptx
    assert [one.kernel for one in made.resources] == ["k00_scale", "k01_one"]
    assert not any(one.spills for one in made.resources)
    for one in made.resources:
        assert one.block is not None
        assert one.occupancy(arch(name), one.block).fraction > 0.5


def test_the_same_kernels_of_both_compilers(
    nvrtc: CudaCompiler, nvcc: CudaCompiler, tmp_path: Path
):
    assert nvrtc.identity != nvcc.identity
    assert set(ARCHS) <= set(nvrtc.archs)
    by_library = nvrtc.compile(TEXT, "unit.cu", SM_90, tmp_path)
    by_program = nvcc.compile(TEXT, "unit.cu", SM_90, tmp_path)
    names = [[one.kernel for one in made.resources] for made in (by_library, by_program)]
    assert names == [["k00_scale", "k01_one"]] * 2


def test_the_command_for_people_makes_the_same(
    nvcc: CudaCompiler, nvrtc: CudaCompiler, tmp_path: Path
):
    made = nvcc.compile(TEXT, "unit.cu", SM_90, tmp_path).cubin
    folder = tmp_path / "by hand"
    folder.mkdir()
    (folder / "unit.cu").write_text(TEXT)
    command = nvcc.command(SM_90, "unit.cu", "unit.cubin")
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    assert (folder / "unit.cubin").read_bytes() == made
    assert nvrtc.command(SM_90, "unit.cu", "unit.cubin")[1:] == command[1:]


def test_an_architecture_newer_than_the_compiler(nvrtc: CudaCompiler, tmp_path: Path):
    older = replace(nvrtc, tool=replace(nvrtc.tool, archs=("sm_75", "sm_80", "sm_86")))
    made = older.compile(TEXT, "unit.cu", SM_90, tmp_path)
    assert made.cubin == b""
    assert made.binary == made.ptx.encode()
    assert ".target sm_86" in made.ptx
    assert len(made.resources) == 2
    assert older.compile(TEXT, "unit.cu", arch("sm_86"), tmp_path).cubin
    assert "-ptx" in older.command(SM_90, "unit.cu", "unit.cubin")


def test_an_architecture_that_the_compiler_lacks(nvrtc: CudaCompiler, tmp_path: Path):
    tool = replace(nvrtc.tool, version="NVRTC 15.0", archs=("sm_90", "sm_100"))
    newer = replace(nvrtc, tool=tool)
    with pytest.raises(CompilerError) as caught:
        newer.compile(TEXT, "unit.cu", arch("sm_80"), tmp_path)
    assert str(caught.value) == "NVRTC 15.0 does not compile for sm_80: it has sm_90, sm_100"


def message_of(compiler: CudaCompiler, text: str, folder: Path) -> str:
    """What is said of a text that cannot be compiled."""
    with pytest.raises(CompilerError) as caught:
        compiler.compile(text, "unit.cu", SM_90, folder)
    return str(caught.value)


def test_an_error_has_file_and_line(compiler: CudaCompiler, tmp_path: Path):
    message = message_of(compiler, BROKEN, tmp_path)
    first, line, place = message.splitlines()[:3]
    assert first == 'unit.cu(5): error: identifier "factor" is undefined'
    assert line.strip() == "f32x4 x = factor + ((const f32x4 *)a0)[i];"
    assert place.strip() == "^"


def test_an_error_comes_before_warnings_and_notes(compiler: CudaCompiler, tmp_path: Path):
    message = message_of(compiler, kernel("int unused = 3;\n    y0[0] = gone;"), tmp_path)
    assert message.startswith('unit.cu(3): error: identifier "gone" is undefined\n')
    assert "unused" not in message
    assert "Remark" not in message


def test_many_errors_are_cut(nvrtc: CudaCompiler, tmp_path: Path):
    text = kernel("\n    ".join(f"y0[{number}] = gone_{number};" for number in range(30)))
    lines = message_of(nvrtc, text, tmp_path).splitlines()
    assert len(lines) == 41
    assert lines[-1] == "… and 50 lines more"


def test_a_warning_is_an_error_in_generated_text_only(compiler: CudaCompiler, tmp_path: Path):
    text = kernel("int unused = 3;\n    y0[0] = 1.0f;")
    message = message_of(compiler, text, tmp_path)
    assert message.startswith(
        'unit.cu(2): warning #177-D: variable "unused" was declared but never referenced\n'
    )
    assert "Remark" not in message
    made = compiler.lenient().compile(text, "unit.cu", SM_90, tmp_path)
    assert made.cubin
    assert '"unused" was declared' in made.log


def test_a_wrong_instruction_is_the_assemblers_error(compiler: CudaCompiler, tmp_path: Path):
    message = message_of(compiler, kernel('asm("foo.bar;");\n    y0[0] = 1.0f;'), tmp_path)
    assert "Not a name of any known instruction: 'foo'" in message
    assert "ptxas info" not in message


def test_what_is_no_error():
    log = LOG + "\nRemark: The warnings can be suppressed\n\nnvcc warning : sm_50 goes away\n"
    assert error_text(log) == "nvcc warning : sm_50 goes away"
    assert warning_text(log) == ""
    one = 'unit.cu(3): warning #177-D: variable "x"\n      int x;\n          ^\n\n'
    two = 'unit.cu(1): catastrophic error: cannot open source file "a.h"\n  #include "a.h"\n\n'
    text = f"{one}{two}1 catastrophic error detected\nCompilation terminated.\n{LOG}"
    assert error_text(text) == two.strip()
    assert warning_text(text) == one.strip()


def test_more_shared_arrays_than_a_block_has(compiler: CudaCompiler, tmp_path: Path):
    assert message_of(compiler, LARGE, tmp_path) == (
        "kernel k: its __shared__ arrays take 80,000 bytes; a block of sm_90 has at most 49,152 of "
        "that kind. Take them from dynamic shared memory (extern __shared__), of which there are "
        "up to 232,448, or use smaller tiles"
    )


def test_larger_blocks_than_there_can_be(compiler: CudaCompiler, tmp_path: Path):
    text = kernel("y0[0] = 1.0f;", "__launch_bounds__(2048)")
    assert message_of(compiler, text, tmp_path) == (
        "kernel k: __launch_bounds__ says 2,048 threads a block; sm_90 has at most 1,024. Use "
        "smaller blocks, and more of them"
    )


def test_a_compiler_is_found_and_remembered(
    nvrtc: CudaCompiler, cache: Cache, monkeypatch: pytest.MonkeyPatch
):
    found = find_cuda_compiler(cache)
    assert found is not None
    assert found.tool == nvrtc.tool, "NVRTC is taken before nvcc"
    monkeypatch.setattr(cuda_compiler, "_found", {})
    monkeypatch.setattr(cuda_compiler, "open_nvrtc", lambda library: pytest.fail("asked again"))
    again = find_cuda_compiler(cache)
    assert again == found
    assert again is not None
    assert again.identity == found.identity


def test_without_nvrtc_nvcc_is_taken(
    nvcc: CudaCompiler, cache: Cache, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(cuda_compiler, "find_libraries", lambda: iter(()))
    monkeypatch.setattr(cuda_compiler, "_found", {})
    found = require_cuda_compiler(cache)
    assert found.tool == nvcc.tool
    monkeypatch.setattr(cuda_compiler, "_found", {})
    monkeypatch.setattr(cuda_compiler, "open_nvcc", lambda *_: pytest.fail("asked again"))
    again = find_cuda_compiler(cache)
    assert again == found


def test_a_script_that_calls_nvcc_leads_to_the_toolkit(
    nvcc: CudaCompiler, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    program = nvcc.tool.program if not isinstance(nvcc.tool, Nvrtc) else ""
    script = tmp_path / "nvcc"
    script.write_text(f'#!/bin/sh\nexec {program} "$@"\n')
    script.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    assert find_nvcc() == program


def test_without_any_compiler(cache: Cache, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(cuda_compiler, "find_libraries", lambda: iter(()))
    monkeypatch.setattr(cuda_compiler, "find_nvcc", lambda: None)
    assert find_cuda_compiler(cache) is None
    with pytest.raises(CompilerError) as caught:
        require_cuda_compiler(cache)
    assert (
        str(caught.value)
        == """\
no CUDA compiler was found.
  NVRTC: there is no libnvrtc in Python's packages, in CUDA_HOME, in /usr/local/cuda or where the \
system has its libraries
  nvcc: it is not on PATH, in CUDA_HOME or in /usr/local/cuda
To get one, which needs neither a GPU nor a driver:
  pip install "noeira[cuda]"   NVRTC, in the package nvidia-cuda-nvrtc
or install NVIDIA's CUDA toolkit and set CUDA_HOME to its folder."""
    )


def test_an_nvrtc_without_its_builtins(
    cache: Cache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    package = tmp_path / "nvidia" / "cu13" / "lib"
    package.mkdir(parents=True)
    library = package / "libnvrtc.so.13"
    library.write_bytes(b"no library")
    (package / "libnvrtc.alt.so.13").write_bytes(b"another")
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    monkeypatch.setattr(cuda_toolkit, "STANDARD", ())
    assert next(find_libraries()) == library
    monkeypatch.setattr(cuda_compiler, "find_libraries", lambda: iter([library]))
    monkeypatch.setattr(cuda_compiler, "find_nvcc", lambda: None)
    with pytest.raises(CompilerError) as caught:
        require_cuda_compiler(cache)
    assert (
        f"  NVRTC: {library} is of no use without libnvrtc-builtins, which is not beside it: "
        "install it again, pip install --force-reinstall nvidia-cuda-nvrtc\n"
    ) in str(caught.value)
    (package / "libnvrtc-builtins.so.13.0").write_bytes(b"no library")
    with pytest.raises(CompilerError, match=rf"NVRTC: {library} cannot be loaded: "):
        require_cuda_compiler(cache)


def test_an_nvcc_that_does_not_compile(cache: Cache, tmp_path: Path):
    script = tmp_path / "nvcc"
    script.write_text(
        '#!/bin/sh\ncase $1 in\n--version) echo "release 12.4, V12.4.131";;\n'
        "--list-gpu-code) echo sm_90; echo sm_80;;\n"
        "*) echo \"sh: 1: gcc: not found\"; exit 1;;\nesac\n"
    )  # fmt: skip
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    with pytest.raises(CompilerError) as caught:
        open_nvcc(str(script), tmp_path)
    assert str(caught.value) == (
        f"{script} does not compile: sh: 1: gcc: not found. It needs a C++ compiler, such as g++, "
        "and headers of CUDA"
    )
