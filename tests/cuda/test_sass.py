"""Machine instructions, as the disassemblers print them."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest
from compiler_texts import TEXT

from noeira.codegen.cuda.arch import arch
from noeira.errors import CompilerError
from noeira.runtime.cuda import sass
from noeira.runtime.cuda import toolkit as cuda_toolkit
from noeira.runtime.cuda.compiler import (
    CudaCompiler,
)

SM_90 = arch("sm_90")


NVDISASM = """\
	.target	sm_90

//--------------------- .text.k01_b               --------------------------
	.section	.text.k01_b,"ax",@progbits
	.align	128
        .global         k01_b
k01_b:
.text.k01_b:
        /*0000*/                   LDC R1, c[0x0][0x28] ;
.L_x_0:
        /*0010*/                   BRA `(.L_x_0);
        /*0020*/                   NOP;
        /*0030*/                   NOP;
.L_x_2:


//--------------------- .text.k00_a               --------------------------
	.section	.text.k00_a,"ax",@progbits
k00_a:
.text.k00_a:
        /*0000*/                   LDG.E.128 R4, desc[UR4][R2.64] ;
        /*0010*/                   EXIT ;
.L_x_3:
//--------------------- SYMBOLS                   --------------------------
	.type		k01_b,@"STO_CUDA_ENTRY STV_DEFAULT"
"""
CUOBJDUMP = """\

	code for sm_90
	.target	sm_90

		Function : k01_b
	.headerflags	@"EF_CUDA_SM90"
        /*0000*/                   LDC R1, c[0x0][0x28] ;      /* 0x00000a00ff017b82 */
                                                               /* 0x000e300000000800 */
        /*0010*/                   BRA 0x10;                   /* 0xfffffffc00fc7947 */
                                                               /* 0x000fc0000383ffff */
        /*0020*/                   NOP;                        /* 0x0000000000007918 */
                                                               /* 0x000fc00000000000 */
		..........


		Function : k00_a
	.headerflags	@"EF_CUDA_SM90"
        /*0000*/                   EXIT ;                      /* 0x000000000000794d */
                                                               /* 0x000fea0003800000 */
		..........
"""


def test_functions_of_both_disassemblers():
    found = sass.functions_in(NVDISASM, "nvdisasm")
    assert list(found) == ["k00_a", "k01_b"]
    assert found["k01_b"] == (
        "        /*0000*/                   LDC R1, c[0x0][0x28] ;\n"
        ".L_x_0:\n"
        "        /*0010*/                   BRA `(.L_x_0);\n"
    )
    assert "LDG.E.128" in found["k00_a"]
    assert "SYMBOLS" not in found["k00_a"]
    assert sass.functions_in(CUOBJDUMP, "cuobjdump") == {
        "k00_a": "        /*0000*/                   EXIT ;\n",
        "k01_b": "        /*0000*/                   LDC R1, c[0x0][0x28] ;\n"
        "        /*0010*/                   BRA 0x10;\n",
    }


def test_without_a_disassembler(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sass, "find_program", lambda name: None)
    with pytest.raises(CompilerError) as caught:
        sass.sass(b"")
    assert (
        str(caught.value)
        == """\
SASS is read by nvdisasm or cuobjdump, and neither was found. To get one:
  pip install nvidia-cuda-nvdisasm
or put the bin folder of NVIDIA's CUDA toolkit on PATH. PTX needs no tool."""
    )


def test_tools_are_found_in_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    program = tmp_path / "nvidia" / "cu13" / "bin" / "nvdisasm"
    program.parent.mkdir(parents=True)
    shutil.copy(shutil.which("true") or "/bin/true", program)
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    monkeypatch.setenv("PATH", "")
    assert sass.find_disassembler() == ("nvdisasm", str(program))


@pytest.mark.parametrize("tool", list(sass.TOOLS))
def test_machine_instructions(
    nvrtc: CudaCompiler, tool: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    if cuda_toolkit.find_program(tool) is None:
        pytest.skip(f"there is no {tool} here")
    monkeypatch.setattr(sass, "TOOLS", {tool: sass.TOOLS[tool]})
    cubin = nvrtc.compile(TEXT, "unit.cu", SM_90, tmp_path).cubin
    found = sass.sass(cubin, ["k00_scale"], tmp_path)
    assert list(found) == ["k00_scale"]
    assert "LDG.E.128" in found["k00_scale"]
    assert "STG.E.128" in found["k00_scale"]
    assert "FFMA" not in found["k00_scale"]
    assert list(sass.sass(cubin)) == ["k00_scale", "k01_one"]
    with pytest.raises(CompilerError) as caught:
        sass.sass(cubin, ["k07"])
    assert str(caught.value) == "there is no kernel 'k07': there are k00_scale, k01_one"
    with pytest.raises(CompilerError, match="does not read this machine code"):
        sass.sass(b"no machine code")
