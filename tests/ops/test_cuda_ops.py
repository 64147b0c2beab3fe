"""Sweeps over the CUDA kernels of ops, run on the CPU: against references, in any order of blocks
and threads, and checked for what a GPU would not forgive.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from cuda_sweep import TARGET, CudaKernels, CudaLibrary
from needs import needs_cxx
from sweep import (
    Case,
    Limits,
    arrays_not_ok,
    assert_agrees,
    assert_bits_of_parts,
    assert_kept,
    every_op,
    limited,
    retyped,
    same_bits,
    sample_case,
)
from test_ops import FUSED_BUT_PRODUCTS, NUMBERS, SPECIAL, check_special_values, family, named

from noeira.codegen.cuda import anchor, total
from noeira.codegen.cuda.target import CudaTarget
from noeira.codegen.kernels.column import cuda as column
from noeira.codegen.kernels.shuffle import cuda as shuffle
from noeira.ir.body import body_of
from noeira.ir.op import Op, op
from noeira.ir.samples import Draw, Sample
from noeira.ir.states import COUNTER, FLAG
from noeira.ir.storage import overwritable
from noeira.ir.types import Range, TensorType

pytestmark = needs_cxx

# Small enough that samples are taken in several stages, by several blocks in turns.
SMALL_LIMITS: Limits = {
    anchor: {"BLOCK": 64, "BLOCKS_EACH": 2},
    total: {"SUM_ALONE": 100, "SUM_CHUNK": 128},
    column: {"COLUMN_ROWS": 16, "COLUMN_CHUNK_ROWS": 12},
    shuffle: {"BLOCK": 32, "PIECE_BLOCK": 8, "PIECE": 64, "DISTANCES": 3},
}
SMALL_TARGET = CudaTarget(replace(TARGET.arch, multiprocessors=1))
RUNS = (("forward", 0), ("reverse", 0), ("random", 1), ("random", 2))
# Templates that have tests of their own.
ELSEWHERE = frozenset(
    {
        "gemm",
        "softmax",
        "softmax_grad",
        "row_sum",
        "row_broadcast",
        "cross_entropy",
        "cross_entropy_grad",
        "cross_entropy_grad_grad",
        "soft_cross_entropy",
        "soft_cross_entropy_grad",
        "log_sum_exp",
        "top_k",
    }
)
OPS = [rule for rule in every_op() if rule.launches and rule.template not in ELSEWHERE]
SIZES = (1, 3, 31, 32, 33, 100, 127, 257, 1021)


def normal(*shape: int, dtype: str = "f32") -> Draw:
    """An operand of normal numbers, or of small whole ones."""
    type = TensorType(dtype, shape)
    return Draw(type) if type.is_float else Draw(type, "index", 100)


def optimizer_sample(name: str, size: int, moments: int, **attrs: object) -> Sample:
    """Operands of an optimizer."""
    flat, lr = normal(size), Draw(TensorType("f32", ()))
    rest = (lr, Draw(COUNTER, "counter"), Draw(FLAG, "true"), normal(size))[: 3 + (moments > 0)]
    second = (Draw(TensorType("f32", (size,)), "positive"),) if moments > 1 else ()
    return Sample((flat, flat, *rest, *second), attrs, ())


def taking(samples: int, rows: int, *shape: int, dtype: str = "f32") -> Sample:
    """Operands of `take`."""
    order = Draw(TensorType("i32", (samples,)), "index", samples)
    cursor = Draw(TensorType("i64", ()), "index", 5 * samples)
    return Sample((normal(samples, *shape, dtype=dtype), order, cursor), {"rows": rows}, ())


def more_samples() -> Iterator[tuple[str, Sample]]:
    """Lengths about those of accesses, warps, strips and chunks, and whatever else may go wrong."""
    two, many = (Range(1, 5), Range(5, 31)), tuple(Range(n, n + 7) for n in range(40, 1000, 31))
    for size in SIZES:
        yield "add", Sample((normal(size), normal(size)))
        yield "add", Sample((normal(3, size), normal(size)))
        yield "sum", Sample((normal(size),))
        yield "mse", Sample((normal(size), normal(size)))
        yield "column_sum", Sample((normal(40, size),), {"scale": 0.5})
        yield "column_sum", Sample((normal(size, 5),))
        yield "broadcast", Sample((normal(size),), {"shape": (7, size), "scale": 2.0})
        yield "columns", Sample((normal(3, size + 9),), {"start": 4, "width": size})
        yield "pad_columns", Sample((normal(3, size),), {"start": 4, "width": size + 8})
        yield "concat", Sample((normal(5, 4), normal(5, size), normal(5, 8)))
        decay = tuple(r for r in (*two, *many) if r.stop <= size)
        yield "sgd", optimizer_sample("sgd", size, 1, momentum=0.9, weight_decay=0.1, decay=decay)
        yield "adam", optimizer_sample("adam", size, 2, weight_decay=0.1, decay=decay)
    for dtype in ("f64", "i32", "i64", "u8"):
        for width in (1, 3, 6, 8, 16, 49):
            yield "take", taking(20, 6, width, dtype=dtype)
    yield "take", taking(17, 17, 28, 28, dtype="u8")
    yield "take", taking(1, 1, 1)


MORE = tuple(more_samples())
FUSED_FAMILY = "fused"


@cache
def samples(rule: Op, dtype: str, small: bool) -> tuple[Case, ...]:
    """The samples of an op as cases; with small limits also those of all lengths."""
    more = [sample for name, sample in MORE if name == rule.name] if small else []
    given = [*rule.samples(), *more]
    return tuple(sample_case(rule, retyped(sample, dtype)) for sample in given)


def cases_of(of: str, dtype: str, small: bool) -> list[Case]:
    """Every case of a family."""
    if of == FUSED_FAMILY:
        return [case for group in FUSED_BUT_PRODUCTS for case in group]
    special = [c for c in SPECIAL.values() if family(c.node.op) == of and dtype == "f32"]
    return [c for rule in OPS if family(rule) == of for c in samples(rule, dtype, small)] + special


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where units are built."""
    return tmp_path_factory.mktemp("units")


def kernels_in_small(cases: Sequence[Case], target: CudaTarget = SMALL_TARGET) -> CudaKernels:
    """The kernels of cases under small limits."""
    with limited(SMALL_LIMITS):
        return CudaKernels.of(cases, target)


@cache
def library(folder: Path, of: str, dtype: str, small: bool, check: bool = False) -> CudaLibrary:
    """The kernels of a family in one unit, as chosen or in all their stages."""
    cases = cases_of(of, dtype, small)
    kernels = kernels_in_small(cases) if small else CudaKernels.of(cases)
    place = folder / f"{of} {dtype} {small} {check}"
    place.mkdir()
    return kernels.built(place, check)


VARIANTS = [("f32", False), ("f32", True), ("f64", True)]


@pytest.mark.parametrize(("dtype", "small"), VARIANTS, ids=["f32", "f32 small", "f64 small"])
@named(OPS)
def test_kernel_agrees_with_reference(folder: Path, rule: Op, dtype: str, small: bool) -> None:
    built = library(folder, family(rule), dtype, small)
    for number, case in enumerate(samples(rule, dtype, small)):
        check_kernel(built, case, case.arrays(number))


@named(OPS)
def test_kernel_does_nothing_that_a_gpu_forbids(folder: Path, rule: Op) -> None:
    """Races, accesses beyond bounds, reads of what nobody wrote, divergence at barriers."""
    built = library(folder, family(rule), "f32", True, check=True)
    for case in samples(rule, "f32", True):
        built.run(case, case.arrays())


def same_in_all_orders(
    built: CudaLibrary, case: Case, arrays: Sequence[np.ndarray]
) -> list[np.ndarray]:
    """The results of a case, whose bits must not depend on the order of blocks and threads."""
    return same_bits(case, (built.run(case, arrays, *run) for run in RUNS), "the order")


def same_in_place(built: CudaLibrary, case: Case, arrays: Sequence[np.ndarray]) -> None:
    """The bits must not depend on whether results take over the memory of operands."""
    runs = (built.run(case, arrays, in_place=place) for place in (False, True))
    same_bits(case, runs, "where results are")


def check_kernel(built: CudaLibrary, case: Case, arrays: Sequence[np.ndarray]) -> None:
    """The results of a case must agree with the reference."""
    assert_agrees(case, same_in_all_orders(built, case, arrays), arrays)


@named(OPS)
def test_result_may_take_over_the_memory_of_an_operand(folder: Path, rule: Op) -> None:
    for dtype, small in VARIANTS:
        for case in samples(rule, dtype, small):
            if overwritable(case.node):
                same_in_place(library(folder, family(rule), dtype, small), case, case.arrays())


@named([rule for rule in OPS if "ok" in rule.operands])
def test_step_that_is_not_ok_changes_nothing(folder: Path, rule: Op) -> None:
    for dtype, small in VARIANTS:
        built = library(folder, family(rule), dtype, small)
        for case in samples(rule, dtype, small):
            arrays = arrays_not_ok(case)
            assert_kept(case, arrays)
            check_kernel(built, case, arrays)
            same_in_place(built, case, arrays)


@named([rule for rule in OPS if "step" in rule.operands])
def test_first_update(folder: Path, rule: Op) -> None:
    for dtype, small in VARIANTS:
        for case in samples(rule, dtype, small):
            arrays = case.arrays()
            arrays[rule.operands.index("step")][...] = 0
            check_kernel(library(folder, family(rule), dtype, small), case, arrays)


@pytest.mark.parametrize(
    "group", FUSED_BUT_PRODUCTS, ids=[group[0].label for group in FUSED_BUT_PRODUCTS]
)
def test_fused_kernel_gives_the_bits_of_its_parts(folder: Path, group: tuple[Case, ...]) -> None:
    arrays = group[0].arrays()
    for small in (False, True):
        built = library(folder, FUSED_FAMILY, "f32", small)
        results = same_in_all_orders(built, group[0], arrays)
        assert_bits_of_parts(group, arrays, results, built.run)


@pytest.mark.parametrize("name", SPECIAL)
def test_special_values(folder: Path, name: str) -> None:
    check_special_values(name, library(folder, family(op(name)), "f32", False).run)


def test_finite(folder: Path) -> None:
    (case,) = samples(op("finite"), "f32", False)
    for number in NUMBERS:
        (result,) = library(folder, "control", "f32", False).run(case, [np.asarray(number)])
        assert result == np.isfinite(number)


@pytest.mark.parametrize("name", ["sum", "column_sum"])
def test_more_chunks_than_threads(folder: Path, name: str) -> None:
    case = sample_case(op(name), Sample((normal(3000, 9),), {"scale": 0.5}))
    kernels = kernels_in_small([case], TARGET)
    chunks, total = (dict(stage.options) for stage in kernels.choices[0].stages)
    assert chunks["grid"] > total["block"]
    place = folder / name
    place.mkdir()
    check_kernel(kernels.built(place), case, case.arrays())


def test_small_limits_reach_every_stage_and_turn() -> None:
    """What is swept is what large shapes get."""
    families = {family(rule) for rule in OPS} | {FUSED_FAMILY}
    cases = [case for of in families for case in cases_of(of, "f32", True)]
    kernels = kernels_in_small(cases)
    stages = {stage.name for choice in kernels.choices for stage in choice.stages}
    assert stages >= {"chunks", "total", "merge_12", "step_12_8"}
    assert stages >= {body_of(case.node).stem for case in cases} - {"shuffle"}
    assert "access += 128" in kernels.text and "index += 128" in kernels.text
    assert "bounds[]" in kernels.text
