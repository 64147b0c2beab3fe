"""The table of targets: what is asked of a target by its name stands there once."""

from __future__ import annotations

import pytest
from needs import needs_compiler, needs_cxx

import noeira
from noeira.codegen.language import CUDA, C, language_of
from noeira.codegen.targets import target_named
from noeira.ir.choices import Choices
from noeira.nn import Linear
from noeira.runtime.c.compiler import require_compiler
from noeira.runtime.cuda_cpu.toolchain import cuda_cpu_toolchain
from noeira.runtime.reference import ReferenceToolchain
from noeira.runtime.targets import (
    TARGETS,
    first_of_each_language,
    running,
    target_called,
    toolchain_for,
)


def test_files_are_run_by_the_targets_of_their_language() -> None:
    assert running(".c") == running(".so") == ("cpu",)
    assert running(".cu") == ("cuda-cpu", "cuda")
    assert running(".cubin") == ("cuda",)
    assert running(".nir") == ()
    assert {kind: one.name for kind, one in first_of_each_language().items()} == {
        C: "cpu",
        CUDA: "cuda",
    }
    assert language_of("cuda sm_90") is CUDA and language_of("c avx2") is C


@needs_compiler
def test_a_target_has_a_toolchain_where_a_compiler_builds_for_it() -> None:
    own = require_compiler().isa.name
    target = target_named(f"c {own}", Choices(name="a table"))
    assert toolchain_for(target).target == target
    other = "neon" if own != "neon" else "avx2"
    with pytest.raises(noeira.CompilerError, match=f"compiler builds for {own}, not {other}"):
        toolchain_for(target_named(f"c {other}"))


def test_a_target_that_there_is_not_is_answered_with_those_there_are() -> None:
    with pytest.raises(noeira.OptionError, match="no target 'gpu'; there are cpu, cuda, cuda-cpu"):
        target_called("gpu")


@pytest.mark.parametrize(
    ("target", "why"), [("reference", "runs no kernels"), ("cuda-cpu", "is cut by rule alone")]
)
def test_a_table_of_choices_that_could_have_no_effect_is_refused(target: str, why: str) -> None:
    with pytest.raises(noeira.NoeiraError, match=f"is for target cpu: {target} {why}"):
        noeira.compile(Linear[2, 3], target=target, choices=Choices())
    assert TARGETS[target].table(None) == Choices()


TABLE = Choices(name="a table")


@pytest.mark.parametrize(
    ("target", "options", "name"),
    [
        ("cpu", {"isa": "neon"}, "c neon"),
        ("reference", {"isa": "neon"}, "c neon"),
        ("cuda", {}, "cuda sm_80"),
        ("cuda-cpu", {"arch": "sm_90"}, "cuda sm_90"),
    ],
)
def test_what_code_is_written_for(target: str, options: dict[str, str], name: str) -> None:
    found = TARGETS[target].written_for(choices=TABLE, **options)
    assert found.name == name and found.choices is TABLE


@pytest.mark.parametrize(
    ("target", "options", "message"),
    [
        ("cpu", {"arch": "sm_90"}, "arch=sm_90 has no effect on target cpu, which has isa=…"),
        ("cuda", {"isa": "avx2"}, "isa=avx2 has no effect on target cuda, which has arch=…"),
        ("cpu", {"isa": "sse"}, "there is no target 'c sse'; there are c avx512, c avx2, "),
        ("cuda", {"arch": "sm_7"}, "there is no target 'cuda sm_7'; there are cuda sm_75, "),
    ],
)
def test_a_machine_that_there_is_not(target: str, options: dict[str, str], message: str) -> None:
    with pytest.raises(noeira.DeviceError, match=message):
        TARGETS[target].written_for(**options)


@needs_cxx
def test_a_table_reaches_the_code_of_every_language() -> None:
    assert cuda_cpu_toolchain(choices=TABLE).target.choices is TABLE


def test_a_program_says_which_target_it_runs_on(monkeypatch: pytest.MonkeyPatch) -> None:
    assert noeira.compile(Linear[2, 3], target="reference").target == "reference"
    monkeypatch.setattr("noeira.runtime.c.toolchain.c_toolchain", lambda choices: None)
    assert isinstance(TARGETS["cpu"].open(), ReferenceToolchain)
    assert noeira.compile(Linear[2, 3], target="cpu").target == "reference"
