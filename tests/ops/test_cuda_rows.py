"""CUDA kernels of row ops, on the CPU: against references, in every order, and in check mode."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from cuda_sweep import TARGET, CudaKernels, CudaLibrary
from needs import needs_cxx
from sweep import Case, Limits, assert_agrees, limited, reference, retyped, same_bits, sample_case

from noeira.codegen.cuda import anchor, row, row_total
from noeira.codegen.cuda.target import CudaTarget
from noeira.ir.op import op
from noeira.ir.samples import Draw, Sample
from noeira.ir.types import TensorType

pytestmark = needs_cxx

NAMES = (
    *("softmax", "softmax_grad", "row_sum", "row_broadcast", "cross_entropy"),
    *("cross_entropy_grad", "cross_entropy_grad_grad", "soft_cross_entropy"),
    *("soft_cross_entropy_grad", "top_k"),
)
# Part of a warp for a row, a warp, a block: whole accesses or not, kept in registers or not.
SHAPES = (
    *((1, 1), (31, 4), (257, 1), (127, 7), (33, 8), (1000, 10), (7, 31), (7, 32), (13, 33)),
    *((9, 64), (6, 100), (5, 127), (4, 257), (3, 1000), (2, 1024), (3, 1031), (2, 2048)),
    *((3, 3001), (1, 4099), (2, 20011), (1, 20480)),
)
ONE = replace(TARGET.arch, multiprocessors=1)
FEW = (7, 8, 33, 64, 1031, 1024, 20011)
# As chosen; three blocks that take rows in turn; rows that blocks larger than they take twice.
LIMITS: dict[str, tuple[CudaTarget, Limits]] = {
    "chosen": (TARGET, {}),
    "in turns": (CudaTarget(ONE), {anchor: {"BLOCKS_EACH": 3}, row_total: {"LONE_THREADS": 0}}),
    "blocks": (
        CudaTarget(ONE),
        {anchor: {"BLOCKS_EACH": 3}, row: {"WARP_BYTES": 16, "HELD_BYTES": 2}},
    ),
}
WIDTHS = (7, 64, 257, 1031, 2048, 20011)
VARIANTS = [*(("f32", limits) for limits in LIMITS), ("f64", "chosen"), ("f64", "blocks")]
ORDERS = (("forward", 0), ("reverse", 0), ("random", 1), ("random", 2))


def sample_of(name: str, rows: int, columns: int, extra: bool) -> Sample:
    """Operands of a shape; `extra` adds smoothing and the optional operand."""
    z, each = Draw(TensorType("f32", (rows, columns))), Draw(TensorType("f32", (rows,)))
    one, classes = Draw(TensorType("f32", ())), Draw(TensorType("i32", (rows,)), "index", columns)
    target = replace(z, kind="probabilities")
    more = (each,) if extra else ()
    operands = {
        "softmax": (z,),
        "softmax_grad": (z, target),
        "row_sum": (z,),
        "row_broadcast": (each,),
        "cross_entropy": (z, classes),
        "cross_entropy_grad": (z, classes, each, one, *more),
        "cross_entropy_grad_grad": (z, z, classes, each, one, *more),
        "soft_cross_entropy": (z, target),
        "soft_cross_entropy_grad": (z, target, each, one),
        "top_k": (z, classes),
    }
    attrs: dict[str, float] = {"smoothing": 0.1 if extra else 0.0} if "cross" in name else {}
    attrs |= {"columns": columns} if name == "row_broadcast" else {}
    attrs |= {"k": min(3, columns)} if name == "top_k" else {}
    return Sample(operands[name], attrs)


def case_of(name: str, rows: int, columns: int, extra: bool = False, dtype: str = "f32") -> Case:
    """An op on operands of a shape."""
    return sample_case(op(name), retyped(sample_of(name, rows, columns, extra), dtype))


SPECIAL = {
    (name, columns): case_of(name, 6, columns)
    for name in ("softmax", "cross_entropy", "soft_cross_entropy", "top_k")
    for columns in WIDTHS
}


@cache
def cases(name: str, dtype: str, limits: str) -> tuple[Case, ...]:
    """Cases of an op: all shapes for f32 as chosen, else a few."""
    every = limits == "chosen" and dtype == "f32"
    shapes = SHAPES if every else [shape for shape in SHAPES if shape[1] in FEW]
    return tuple(case_of(name, *shape, i % 2 > 0, dtype) for i, shape in enumerate(shapes))


def kernels(dtype: str, limits: str) -> CudaKernels:
    """The kernels of all cases in one unit."""
    target, changes = LIMITS[limits]
    made = [case for name in NAMES for case in cases(name, dtype, limits)]
    if dtype == "f32":
        made += [case for case in SPECIAL.values() if case not in made]
    with limited(changes):
        return CudaKernels.of(made, target)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory):
    """What gives the built kernels."""

    @cache
    def built(dtype: str, limits: str, check: bool = False) -> CudaLibrary:
        return kernels(dtype, limits).built(tmp_path_factory.mktemp("unit"), check)

    return built


def check_case(built: CudaLibrary, case: Case, arrays: list[np.ndarray]) -> None:
    """The same bits in every order, which agree with the reference."""
    runs = (built.run(case, arrays, *order) for order in ORDERS)
    assert_agrees(case, same_bits(case, runs, "the order"), arrays)


@pytest.mark.parametrize(("dtype", "limits"), VARIANTS)
@pytest.mark.parametrize("name", NAMES)
def test_kernel_agrees_with_reference(name: str, dtype: str, limits: str, library) -> None:
    for number, case in enumerate(cases(name, dtype, limits)):
        check_case(library(dtype, limits), case, case.arrays(number))


@pytest.mark.parametrize("limits", LIMITS)
@pytest.mark.parametrize("name", NAMES)
def test_kernel_has_no_faults(name: str, limits: str, library) -> None:
    for case in cases(name, "f32", limits):
        library("f32", limits, True).run(case, case.arrays())


def special(columns: int) -> np.ndarray:
    """Logits with an infinity or a NaN in each of the first rows."""
    z = np.random.default_rng(0).standard_normal((6, columns)).astype("f4")
    z[0, 0], z[1, -1], z[2, columns // 2], z[3] = -np.inf, np.nan, np.inf, -np.inf
    return z


@pytest.mark.parametrize("limits", LIMITS)
@pytest.mark.parametrize("columns", WIDTHS)
def test_special_logits(columns: int, limits: str, library) -> None:
    """As PyTorch: -inf is a class of probability 0; NaN, +inf and nothing but -inf give NaN."""
    z, target = special(columns), np.array([1, 0, 0, 0, 0, 0], "i4")
    operands = {
        "softmax": [z],
        "cross_entropy": [z, target],
        "soft_cross_entropy": [z, np.full_like(z, 1 / columns)],
        "top_k": [z, target],
    }
    for name, arrays in operands.items():
        case = SPECIAL[name, columns]
        results, expected = library("f32", limits).run(case, arrays), reference(case.node, arrays)
        for got, want in zip(results, expected, strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-5, err_msg=name)


@pytest.mark.parametrize("limits", LIMITS)
@pytest.mark.parametrize("columns", WIDTHS)
def test_logits_of_any_size(columns: int, limits: str, library) -> None:
    """Sums are relative to the greatest logit, wherever it comes and however large it is."""
    case = SPECIAL["cross_entropy", columns]
    z, target = case.arrays()
    z[0], z[1], z[2] = np.sort(z[0] * 1000), np.sort(z[1])[::-1] - 3e4, 1e30
    z[3], z[3, columns - 1] = -1e38, 2e38
    results, expected = (
        library("f32", limits).run(case, [z, target]),
        reference(case.node, [z, target]),
    )
    for got, want in zip(results, expected, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-6)


def options(name: str, rows: int, columns: int) -> list[dict[str, int]]:
    """The options of the stages of an op."""
    case = case_of(name, rows, columns)
    return [dict(stage.options) for stage in TARGET.choose(case.node).stages]


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
    (text,) = CudaKernels.of([case_of("row_sum", 70_000, 50_257)]).case_texts
    assert "const long long begin = row * 50257;" in text
