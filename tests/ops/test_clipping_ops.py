"""Ops that clip gradients: against PyTorch and NumPy in float64, at awkward sizes and numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from needs import needs_compiler
from stepped import TARGETS, Stepped
from sweep import Case, sample_case
from sweep_units import C_SPLIT, CUDA_TURNS, Variant, all_ways

from noeira.errors import VerifyError
from noeira.ir.layouts import Range
from noeira.ir.op import op
from noeira.ir.samples import Draw, Sample
from noeira.ir.types import TensorType

each_target = pytest.mark.parametrize("target", TARGETS)


def case_of(name: str, *shapes: tuple[int, ...], **attrs: Any) -> Case:
    """An op on f32 operands of these shapes."""
    draws = tuple(Draw(TensorType("f32", shape)) for shape in shapes)
    return sample_case(op(name), Sample(draws, attrs, ()))


def unequal() -> tuple[Range, ...]:
    """Very unequal ranges, of 1 to 20000 elements, with gaps between some."""
    random, found, at = np.random.default_rng(5), list[Range](), 3
    for number in range(150):
        length = 20000 if number in (40, 149) else int(random.integers(1, 90))
        found.append(Range(at, at + length))
        at += length + number % 3
    return tuple(found)


RANGES = unequal()
SIZE = RANGES[-1].stop + 5
NORMS = {
    (size, most): case_of("clip_norm", (size,), max_norm=most)
    for size in (1, 5, 1023, 100003)
    for most in (0.0, 1.0)
}
TINY = case_of("clip_norm", (5,), max_norm=1e-7)
VALUE = case_of("clip_value", (1021,), limit=0.5)
ADAPTIVE = case_of("adaptive_clip", (SIZE,), (SIZE,), clip=0.9, ranges=RANGES)
SMALL = case_of("adaptive_clip", (64,), (64,), ranges=(Range(0, 7), Range(8, 40), Range(40, 64)))
FINITE = case_of("finite", (), (), ())
STEPPED = Stepped((*NORMS.values(), TINY, VALUE, ADAPTIVE, SMALL, FINITE))


def run(target: str, case: Case, *arrays: np.ndarray) -> list[np.ndarray]:
    """The results."""
    return list(STEPPED.results(target, case, arrays))


@needs_compiler
@each_target
@pytest.mark.parametrize(("size", "most"), NORMS)
def test_the_norm_and_its_factor_are_those_of_pytorch(size: int, most: float, target: str) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    g = np.random.default_rng(size).standard_normal(size).astype("f4")
    norm, scale = run(target, NORMS[size, most], g)
    parameter = torch.zeros(size, requires_grad=True)
    parameter.grad = torch.tensor(g)
    expected = torch.nn.utils.clip_grad_norm_([parameter], most or np.inf)
    assert float(norm) == pytest.approx(float(expected), rel=1e-6)
    # PyTorch divides by norm + 1e-6.
    np.testing.assert_allclose(g * scale, parameter.grad.numpy(), rtol=5e-6)


@needs_compiler
@each_target
def test_norms_that_are_tiny_or_not_finite(target: str) -> None:
    case, g = NORMS[5, 1.0], np.zeros(5, "f4")
    assert run(target, case, g) == [0, 1]
    assert run(target, TINY, np.full(5, 2e-7, "f4"))[1] == pytest.approx(0.1)
    g[3] = np.inf
    assert run(target, case, g) == [np.inf, 0]
    assert run(target, NORMS[5, 0.0], g) == [np.inf, 1]
    g[3] = np.nan
    assert np.isnan(run(target, case, g)).all()


@needs_compiler
@pytest.mark.parametrize("variant", [C_SPLIT, CUDA_TURNS], ids=str)
def test_the_bits_do_not_depend_on_threads(variant: Variant) -> None:
    target = next(name for name, one in TARGETS.items() if one is variant)
    library = STEPPED.library(target)
    assert library is not None
    for case in (NORMS[100003, 1.0], ADAPTIVE):
        all_ways(library, case, case.arrays())


@needs_compiler
@each_target
def test_clipping_by_value_is_a_clamp(target: str) -> None:
    g = np.random.default_rng(1).standard_normal(1021).astype("f4")
    g[:4] = np.nan, np.inf, -np.inf, -0.5
    (clipped,) = run(target, VALUE, g)
    np.testing.assert_array_equal(clipped, np.clip(g, -0.5, 0.5))


def agc(p: np.ndarray, g: np.ndarray, clip: float, pmin: float) -> float:
    """The factor of `clip_by_agc` in the optimizer of DreamerV3."""
    upper = clip * max(pmin, np.linalg.norm(p.astype("f8")))
    return 1 / max(1.0, np.linalg.norm(g.astype("f8")) / upper)


@needs_compiler
@each_target
def test_adaptive_clipping_of_many_unequal_ranges(target: str) -> None:
    random = np.random.default_rng(2)
    p, g = (random.standard_normal(SIZE).astype("f4") for _ in range(2))
    zero, new = RANGES[7], RANGES[11]
    g[zero.start : zero.stop] = 0
    p[new.start : new.stop] = 0
    # Where no range is, nothing matters.
    g[: RANGES[0].start] = np.nan
    (scale,) = run(target, ADAPTIVE, p, g)
    expected = [agc(p[r.start : r.stop], g[r.start : r.stop], 0.9, 1e-3) for r in RANGES]
    np.testing.assert_allclose(scale, expected, rtol=1e-5)
    assert scale[7] == 1 and scale[11] < 1e-2 and 10 < (scale == 1).sum() < 140
    g[RANGES[40].start + 17000] = np.nan
    (bad,) = run(target, ADAPTIVE, p, g)
    assert np.flatnonzero(np.isnan(bad)).tolist() == [40]
    np.testing.assert_array_equal(np.delete(bad, 40), np.delete(scale, 40))


@needs_compiler
@each_target
def test_adaptive_clipping_of_short_ranges_alone(target: str) -> None:
    random = np.random.default_rng(3)
    p, g = 0.1 * random.standard_normal(64).astype("f4"), random.standard_normal(64).astype("f4")
    (scale,) = run(target, SMALL, p, g)
    spans = ((0, 7), (8, 40), (40, 64))
    expected = [agc(p[a:b], g[a:b], 0.3, 1e-3) for a, b in spans]
    np.testing.assert_allclose(scale, expected, rtol=1e-6)


@needs_compiler
@each_target
def test_one_value_that_is_not_finite_is_enough(target: str) -> None:
    for bad in (np.nan, np.inf, -np.inf):
        for place in range(3):
            values = [np.asarray(1.5, "f4")] * 3
            assert run(target, FINITE, *values) == [True]
            values[place] = np.asarray(bad, "f4")
            assert run(target, FINITE, *values) == [False]


def test_what_ranges_cannot_say() -> None:
    attrs = op("adaptive_clip").Attrs(ranges=(Range(0, 4, (("lr_factor", 0.1),)),))
    with pytest.raises(VerifyError) as found:
        op("adaptive_clip").types(attrs, [TensorType("f32", (8,))] * 2)
    assert str(found.value) == (
        "adaptive_clip: the range 0:4 (lr_factor = 0.1): nothing may vary, not lr_factor"
    )


@pytest.mark.parametrize("shape", [(2,), (4,), (1, 3)])
def test_a_factor_for_each_range_or_one(shape: tuple[int, ...]) -> None:
    rule = op("adam")
    attrs = rule.Attrs(ranges=(Range(0, 2), Range(2, 4), Range(4, 8)))
    flat, one = TensorType("f32", (8,)), TensorType("f32", ())
    types = [flat, flat, one, TensorType("i64", ()), TensorType("bool", ()), flat, flat]
    for right in (one, TensorType("f32", (3,))):
        assert len(rule.types(attrs, [*types, right])) == 3
    wrong = TensorType("f32", shape)
    with pytest.raises(TypeError) as found:
        rule.types(attrs, [*types, wrong])
    assert str(found.value) == (
        f"adam: clip is {wrong}, it must be f32[], or f32[3], a number for each range"
    )
