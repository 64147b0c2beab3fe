"""Convolutions with element-wise ops before them: one kernel that makes what it reads as it reads
it, and gives the bits of its parts. Outside an image there is 0 all the same.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from c_sweep import CKernels, compiler_or_skip, for_isa, quick
from convolution_heads import NAMES, headed_groups
from cuda_sweep import ONE, TARGET, CudaKernels
from fused_cases import Group
from limits import CUDA_SMALL
from needs import needs_compiler, needs_cxx
from sweep import assert_bits_of_parts
from sweep_units import Library, all_ways
from vector_units import runnable

from noeira.codegen.c.isa import ISA
from noeira.codegen.c.target import CTarget
from noeira.ir.body import body_of

pytestmark = pytest.mark.ops(*NAMES)


# By what the setting says, with which dtype, how many of the cases.
WAYS = (("auto", "f32", 1), ("direct", "f64", 2))


@needs_compiler
@pytest.mark.parametrize(("way", "dtype", "step"), WAYS)
@pytest.mark.parametrize("isa", runnable(), ids=lambda isa: isa.name)
def test_c_gives_the_bits_of_the_parts(
    isa: ISA, way: str, dtype: str, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOEIRA_CONV", way)
    groups = headed_groups(dtype)[:: step if isa is runnable()[0] else 5 * step]
    cases = [case for group in groups for case in group]
    built = CKernels.of(CTarget(isa), cases).built(quick(for_isa(compiler_or_skip(), isa)))
    check(groups, built)


@needs_cxx
@pytest.mark.parametrize(
    ("turns", "step"),
    [(True, 5), *(pytest.param(turns, 1, marks=pytest.mark.slow) for turns in (False, True))],
)
def test_cuda_gives_the_bits_of_the_parts(turns: bool, step: int) -> None:
    groups = headed_groups("f32")[::step]
    cases = [case for group in groups for case in group]
    target, limits = (ONE, CUDA_SMALL) if turns else (TARGET, {})
    check(groups, CudaKernels.of(cases, target, limits).built(check=turns))


def check(groups: Sequence[Group], built: Library) -> None:
    """Each is one phase, whose results have the bits of those of its parts."""
    for group in groups:
        assert body_of(group[0].node).head, group[0].label
        arrays = group[0].arrays()
        assert_bits_of_parts(group, arrays, all_ways(built, group[0], arrays), built.run)
