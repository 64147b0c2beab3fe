"""What stages CUDA kernels are taken in, by shape; and that the sweeps reach them all."""

from __future__ import annotations

import pytest
from c_sweep import CKernels
from cuda_sweep import ONE, TARGET, CudaKernels
from fused_cases import fused_groups
from limits import C_SMALL, CUDA_SMALL
from needs import needs_cxx
from samples import kinds, main_shape, stretched
from sweep import Case, assert_agrees, sample_case
from sweep_units import C_SPLIT, CUDA_TURNS, all_ways, unit_cases
from swept_ops import family, launching

from noeira.codegen.c.isa import AVX512
from noeira.codegen.c.target import CTarget
from noeira.ir.body import phases_of
from noeira.ir.op import op
from noeira.ir.samples import Draw, Sample
from noeira.ir.types import TensorType


def rows_of(name: str, rows: int, columns: int) -> Case:
    """An op on rows."""
    rule = op(name)
    for sample in kinds(rule, 2):
        old_rows, old_columns = main_shape(rule, sample)
        made = stretched(rule, sample, {old_rows: rows, old_columns: columns})
        if made is not None:
            return sample_case(rule, made)
    raise AssertionError(name)


def options(name: str, rows: int, columns: int) -> list[dict[str, int]]:
    """The options of the stages of an op."""
    return [
        dict(stage.options) for stage in TARGET.choose(rows_of(name, rows, columns).node).stages
    ]


def test_row_is_taken_by_as_many_threads_as_have_work() -> None:
    expected = {1: 1, 4: 1, 10: 16, 64: 16, 65: 32, 1024: 32, 1025: 128, 4096: 256, 50257: 1024}
    for columns, threads in expected.items():
        (stage,) = options("softmax", 128, columns)
        assert stage["row_threads"] == threads, columns
        if threads > 32:
            assert stage["block"] == threads and stage["shared"] == threads // 8
    assert [options("softmax", 9, n)[0].get("held") for n in (10, 1024, 16384, 50257)] == [
        *(1, 32, 16, None)
    ]


def test_loss_of_a_small_batch_is_one_launch() -> None:
    (stage,) = options("cross_entropy", 128, 10)
    assert stage["grid"] == 1 and stage["block"] == 1024
    rows, total = options("cross_entropy", 4096, 50257)
    assert rows["grid"] == 16 * 108 and total["grid"] == 1


def test_rows_beyond_two_to_the_31_elements_are_counted_in_64_bits() -> None:
    (text,) = CudaKernels.of([rows_of("softmax", 70_000, 50_257)]).case_texts
    assert "const long long begin = row * 50257;" in text


@needs_cxx
@pytest.mark.parametrize("axes", [(), (0,)])
def test_more_chunks_than_threads(axes: tuple[int, ...]) -> None:
    sample = Sample((Draw(TensorType("f32", (3000, 9))),), {"axes": axes, "scale": 0.5})
    case = sample_case(op("sum"), sample)
    kernels = CudaKernels.of([case], TARGET, CUDA_SMALL)
    chunks, total = (dict(stage.options) for stage in kernels.choices[0].stages)
    assert chunks["grid"] > total["block"]
    arrays = case.arrays()
    assert_agrees(case, all_ways(kernels.built(), case, arrays), arrays)


def test_small_limits_reach_every_stage_and_turn() -> None:
    """What is swept is what large shapes get."""
    families = dict.fromkeys(map(family, launching()))
    cases = [case for of in families for case in unit_cases(of, CUDA_TURNS)]
    cases += [case for group in fused_groups() for case in group]
    kernels = CudaKernels.of(cases, ONE, CUDA_SMALL)
    stages = {stage.name for choice in kernels.choices for stage in choice.stages}
    assert stages >= {"chunks", "rows", "total", "merge_12", "step_12_8"}
    bodies = [body for case in cases for body in phases_of(case.node).bodies]
    assert stages >= {body.stem for body in bodies} - {"row_norm_sums", "shuffle"}
    assert "access += 192" in kernels.text and "index += 192" in kernels.text
    assert "stops[]" in kernels.text


def test_small_limits_of_c_reach_every_stage() -> None:
    families = dict.fromkeys(map(family, launching()))
    cases = [case for of in families for case in unit_cases(of, C_SPLIT)]
    kernels = CKernels.of(CTarget(AVX512), cases, C_SMALL)
    stages = [stage for choice in kernels.choices for stage in choice.stages]
    assert {stage.name for stage in stages} >= {"chunks", "rows", "total", "keys", "sort"}
    assert {key for stage in stages for key, _ in stage.options} >= {"split", "stream", "once"}
