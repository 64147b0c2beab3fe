"""Convolutions with element-wise ops before them: one kernel that makes what it reads as it reads
it, and gives the bits of its parts. Outside an image there is 0 all the same.
"""

from __future__ import annotations

import pytest
from c_sweep import CKernels, compiler_or_skip, for_isa, quick
from convolution_heads import NAMES, headed_groups
from cuda_sweep import ONE, TARGET, CudaKernels
from limits import CUDA_SMALL
from needs import needs_compiler, needs_cxx
from sweep import assert_bits_of_parts
from sweep_units import all_ways
from vector_units import runnable

from noeira.codegen.c.isa import ISA
from noeira.codegen.c.target import CTarget

pytestmark = pytest.mark.ops(*NAMES)


@needs_compiler
@pytest.mark.parametrize("way", ["auto", "direct", "winograd2"])
@pytest.mark.parametrize("isa", runnable(), ids=lambda isa: isa.name)
def test_c_gives_the_bits_of_the_parts(isa: ISA, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOEIRA_CONV", way)
    groups = headed_groups("f64" if way == "direct" else "f32")
    cases = [case for group in groups for case in group]
    built = CKernels.of(CTarget(isa), cases).built(quick(for_isa(compiler_or_skip(), isa)))
    for group in groups:
        arrays = group[0].arrays()
        assert_bits_of_parts(group, arrays, all_ways(built, group[0], arrays), built.run)


@needs_cxx
@pytest.mark.parametrize("turns", [False, True])
def test_cuda_gives_the_bits_of_the_parts(turns: bool) -> None:
    groups = headed_groups("f32")
    cases = [case for group in groups for case in group]
    target, limits = (ONE, CUDA_SMALL) if turns else (TARGET, {})
    built = CudaKernels.of(cases, target, limits).built(check=turns)
    for group in groups:
        arrays = group[0].arrays()
        assert_bits_of_parts(group, arrays, all_ways(built, group[0], arrays), built.run)
