"""The table of targets: what is asked of a target by its name stands there once."""

from __future__ import annotations

import pytest

import noeira
from noeira.codegen.language import CUDA, C, language_of
from noeira.ir.choices import Choices
from noeira.nn import Linear
from noeira.runtime.reference import ReferenceToolchain
from noeira.runtime.targets import TARGETS, first_of_each_language, running, target_called


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


def test_a_program_says_which_target_it_runs_on(monkeypatch: pytest.MonkeyPatch) -> None:
    assert noeira.compile(Linear[2, 3], target="reference").target == "reference"
    monkeypatch.setattr("noeira.runtime.toolchain.c_toolchain", lambda choices: None)
    assert isinstance(TARGETS["cpu"].open(), ReferenceToolchain)
    assert noeira.compile(Linear[2, 3], target="cpu").target == "reference"
