"""What kernels make of infinities, NaN, ties and large numbers, in C and in CUDA on the CPU."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from special_cases import CUT_OFF, LOGITS, NUMBERS, special_cases
from sweep import Case, reference
from sweep_units import Variant, each_library, library_of

from noeira.ir.op import Op


@each_library(CUT_OFF)
def test_cut_off(rule: Op, variant: Variant) -> None:
    """NaN stays NaN, and other numbers are cut off exactly."""
    (case,) = special_cases(rule.name).values()
    (result,) = library_of(rule, variant).run(case, [NUMBERS])
    high = np.inf if rule.name == "relu" else 1.0
    expected = np.where(np.isnan(NUMBERS), np.nan, np.clip(NUMBERS, 0, high))
    np.testing.assert_array_equal(result, expected)


@each_library(("finite",))
def test_finite(rule: Op, variant: Variant) -> None:
    (case,) = special_cases(rule.name).values()
    for number in NUMBERS:
        (result,) = library_of(rule, variant).run(case, [np.asarray(number)])
        assert result == np.isfinite(number)


def special_rows(case: Case) -> Iterator[list[np.ndarray]]:
    """Operands with an infinity or a NaN in each of the first rows; then all rows with a loss."""
    z, *others = case.arrays()
    width = z.shape[1]
    z[0, 0], z[1, -1], z[2, width // 2], z[3] = -np.inf, np.nan, np.inf, -np.inf
    z[4, 0] = -np.inf
    if others and others[0].dtype.kind == "i":
        others[0][:6] = [width - 1, 0, 0, 0, 0, 0]
    yield [z, *others]
    for rows in ((0, 4, 5), (0, 5, 5)):
        kept = np.resize(rows, len(z))
        yield [z[kept], *(other[kept] for other in others)]


@each_library(LOGITS)
def test_special_logits(rule: Op, variant: Variant) -> None:
    """As PyTorch: -inf is a class of probability 0; NaN, +inf and nothing but -inf give NaN."""
    for case in special_cases(rule.name).values():
        for arrays in special_rows(case):
            with np.errstate(invalid="ignore"):
                expected = reference(case.node, arrays)
            results = library_of(rule, variant).run(case, arrays)
            for got, want in zip(results, expected, strict=True):
                np.testing.assert_allclose(got, want, 1e-5, 1e-30, err_msg=case.label)


@each_library(("softmax", "cross_entropy"))
def test_a_row_of_special_logits_says_so(rule: Op, variant: Variant) -> None:
    """What the reference says of special logits is what PyTorch does."""
    for width, case in special_cases(rule.name).items():
        arrays, infinite, finite = special_rows(case)
        run = library_of(rule, variant).run
        if rule.name == "softmax":
            (y,) = run(case, arrays)
            assert np.isnan(y[1:4]).all() and not np.isnan(y[[0, 4, 5]]).any() and y[0, 0] == 0
            continue
        loss, lse = run(case, arrays)
        assert np.isnan(loss), width
        np.testing.assert_array_equal(np.isnan(lse[:6]), [False, True, True, True, False, False])
        assert run(case, infinite)[0] == np.inf
        assert np.isfinite(run(case, finite)[0])


@each_library(("softmax", "cross_entropy"))
def test_logits_of_any_size(rule: Op, variant: Variant) -> None:
    """Sums are relative to the greatest logit, wherever it comes and however large it is."""
    for width, case in special_cases(rule.name).items():
        z, *others = case.arrays()
        z[0], z[1], z[2] = np.sort(z[0] * 1000), np.sort(z[1])[::-1] - 3e4, 1e30
        z[3], z[3, width - 1], z[4] = -1e38, 2e38, z[4] * 1e30
        results = library_of(rule, variant).run(case, [z, *others])
        for got, want in zip(results, reference(case.node, [z, *others]), strict=True):
            np.testing.assert_allclose(got, want, 1e-5, 1e-30, err_msg=case.label)


@each_library(("top_k",))
def test_ties_and_nan_among_the_greatest(rule: Op, variant: Variant) -> None:
    """Ties go to the smaller class number; a row with a NaN is wrong, wherever the NaN is."""
    for width, case in special_cases(rule.name).items():
        last = width - 1
        z = np.zeros((6, width), "f4")
        target = np.array([0, 1, 0, last, 0, last], "i4")
        z[2, last], z[3, last], z[4], z[5, last] = np.nan, np.nan, -np.inf, np.inf
        assert library_of(rule, variant).run(case, [z, target]) == [3, 6]
