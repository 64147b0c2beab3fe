"""Philox, the distributions drawn from it, and the initialisers that choose them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from noeira.errors import DtypeError, OptionError, ParseError
from noeira.ir.random import (
    CHUNK,
    Distribution,
    constant,
    fill,
    normal,
    permutation,
    philox,
    truncated_normal,
    uniform01,
    zero,
)
from noeira.nn import (
    Deterministic,
    Initializer,
    Kaiming,
    KaimingNormal,
    Normal,
    ScaledKaiming,
    TruncNormalIn,
    Xavier,
    Zero,
)
from noeira.nn.core.init import initializer

DISTRIBUTIONS = [
    Distribution("uniform", (-0.0874, 0.0874)),
    Distribution("normal", (0.0, 0.02)),
    Distribution("truncated_normal", (0.1 + 0.2, 2.0)),
    Distribution("deterministic"),
    zero(),
    constant(1.0),
]


@pytest.mark.parametrize(
    ("counter", "key", "words"),
    [
        ([0, 0, 0, 0], [0, 0], "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
        ([0xFFFFFFFF] * 4, [0xFFFFFFFF] * 2, "408f276d 41c83b0e a20bc7c6 6d5451fd"),
        (
            [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344],
            [0xA4093822, 0x299F31D0],
            "d16cfe09 94fdcceb 5001e420 24126ea1",
        ),
    ],
)
def test_philox_gives_the_published_words(counter: list[int], key: list[int], words: str):
    """The known-answer vectors of philox4x32-10 in Random123's `kat_vectors`."""
    element, tick = counter[0] | counter[1] << 32, counter[2] | counter[3] << 32
    found = philox(key[0], key[1], element, 1, tick)
    assert found.shape == (1, 4) and found.dtype == np.uint32
    assert [int(word) for word in found[0]] == [int(word, 16) for word in words.split()]


def test_an_element_has_its_words_wherever_a_range_begins():
    whole = philox(7, 3, 0, 3 * CHUNK + 5)
    part = philox(7, 3, CHUNK - 3, CHUNK + 7)
    assert np.array_equal(part, whole[CHUNK - 3 : 2 * CHUNK + 4])
    assert not np.array_equal(whole[:9], philox(8, 3, 0, 9))
    assert not np.array_equal(whole[:9], philox(7, 4, 0, 9))
    assert not np.array_equal(whole[:9], philox(7, 3, 0, 9, tick=1))
    assert philox(7, 3, 0, 0).shape == (0, 4)


@pytest.mark.parametrize("seed", [-1, 1 << 32, 1.5, True, "0"])
def test_a_seed_has_32_bits(seed: Any):
    with pytest.raises(OptionError, match="seed must be a whole number from 0 to 4294967295"):
        philox(seed, 0, 0, 1)


def test_uniform_numbers():
    single = uniform01(1, 2, 100_000)
    double = uniform01(1, 2, 100_000, "f64")
    assert single.dtype == np.float32 and double.dtype == np.float64
    for values, grid in ((single, 2.0**24), (double, 2.0**53)):
        assert values.min() >= 0 and values.max() < 1
        assert np.array_equal(np.floor(values.astype(np.float64) * grid), values * grid)
        assert abs(values.mean() - 0.5) < 0.004
        assert abs(values.var() - 1 / 12) < 0.002
    assert np.abs(single - double).max() < 2.0**-23
    assert np.array_equal(uniform01(1, 2, 5, first=40), single[40:45])


def test_normal_numbers():
    values = normal(1, 2, 100_000)
    assert abs(values.mean()) < 0.01 and abs(values.std() - 1) < 0.01
    assert abs((values**4).mean() - 3) < 0.1
    assert np.array_equal(normal(1, 2, 5, first=40), values[40:45])


def test_truncated_normal_numbers():
    values = truncated_normal(1, 2, 100_000, 2.0)
    assert np.abs(values).max() <= 2
    assert abs(values.mean()) < 0.01
    assert abs(values.std() * 1.1368 - 1) < 0.01
    free = normal(1, 2, 100_000)
    assert np.array_equal(values[np.abs(free) <= 2], free[np.abs(free) <= 2])


def test_permutations():
    order = permutation(5, 1, 1000)
    assert order.dtype == np.int32
    assert np.array_equal(np.sort(order), np.arange(1000))
    assert np.array_equal(order, permutation(5, 1, 1000))
    assert not np.array_equal(order, permutation(5, 1, 1000, tick=1))
    assert not np.array_equal(order, permutation(6, 1, 1000))
    assert permutation(5, 1, 0).shape == (0,)


@pytest.mark.parametrize("distribution", DISTRIBUTIONS, ids=str)
def test_a_distribution_reads_back_exactly(distribution: Distribution):
    assert Distribution.parse(str(distribution)) == distribution
    assert eval(f"{distribution.kind!r}") in str(distribution)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("gauss(0.0, 1.0)", "there is no distribution 'gauss'"),
        ("uniform(0.0)", r"write uniform\(low, high\) with finite numbers"),
        ("uniform(0.0, inf)", "with finite numbers"),
        ("uniform(0.0, x)", "are numbers"),
        ("uniform", "is no distribution"),
        ("zero()()", "is no distribution"),
    ],
)
def test_what_is_no_distribution(text: str, message: str):
    with pytest.raises(ParseError, match=message):
        Distribution.parse(text)


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("distribution", DISTRIBUTIONS, ids=str)
def test_fill_has_the_shape_and_the_dtype(distribution: Distribution, dtype: str):
    values = fill(distribution, 1, 2, (30, 7), dtype)
    assert values.shape == (30, 7)
    assert values.dtype == {"f32": np.float32, "f64": np.float64}[dtype]
    assert np.array_equal(values, fill(distribution, 1, 2, (30, 7), dtype))
    assert fill(distribution, 1, 2, (), dtype).shape == ()


def test_fill_follows_the_distribution():
    assert not fill(zero(), 1, 2, (5,)).any()
    assert (fill(constant(2.5), 1, 2, (5,)) == 2.5).all()
    pattern = fill(Distribution("deterministic"), 1, 2, (9,), "f64")
    assert np.allclose(pattern, [-0.3, -0.2, -0.1, 0.0, 0.1, 0.2, 0.3, -0.3, -0.2])
    wide = fill(Distribution("uniform", (-3.0, 1.0)), 1, 2, (20_000,))
    assert -3 <= wide.min() < -2.99 and 0.99 < wide.max() <= 1
    small = fill(Distribution("normal", (5.0, 0.1)), 1, 2, (20_000,))
    assert abs(small.mean() - 5) < 0.01 and abs(small.std() - 0.1) < 0.01
    with pytest.raises(DtypeError, match="initial values are f32 or f64, not bf16"):
        fill(zero(), 1, 2, (5,), "bf16")


@pytest.mark.parametrize(
    ("rule", "wanted"),
    [
        (Kaiming(), Distribution("uniform", (-math.sqrt(6 / 50), math.sqrt(6 / 50)))),
        (KaimingNormal(), Distribution("normal", (0.0, math.sqrt(2 / 30)))),
        (Xavier(), Distribution("uniform", (-math.sqrt(6 / 80), math.sqrt(6 / 80)))),
        (
            ScaledKaiming(1, 3),
            Distribution("uniform", (-math.sqrt(6 / 50) / 3, math.sqrt(6 / 50) / 3)),
        ),
        (Normal(0.0, 0.02), Distribution("normal", (0.0, 0.02))),
        (TruncNormalIn(), Distribution("truncated_normal", (1.1368 * math.sqrt(1 / 50), 2.0))),
        (Zero(), zero()),
        (Deterministic(), Distribution("deterministic")),
    ],
    ids=repr,
)
def test_initialisers(rule: Initializer, wanted: Distribution):
    assert rule.weight(50, 30) == wanted
    assert rule.bias() == zero()
    assert eval(repr(rule), {type(rule).__name__: type(rule)}) in (rule, type(rule))


def test_how_an_initialiser_is_given():
    assert initializer(Kaiming) == initializer(Kaiming()) == Kaiming()
    given: Any = Normal[0.0, 0.02]
    assert initializer(given) == Normal(0.0, 0.02)
    assert repr(ScaledKaiming(1, 3)) == "ScaledKaiming[1, 3]"
    assert {Kaiming(): 1}[Kaiming()] == 1


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: initializer("kaiming"),
            "init must be an initialiser such as Kaiming, not 'kaiming': write init=Kaiming; there "
            "are Deterministic, Kaiming, KaimingNormal, Normal, ScaledKaiming, TruncNormalIn, "
            "Xavier, Zero",
        ),
        (
            lambda: initializer(Normal),
            "init: Normal needs its parameters: write Normal[mean, std]",
        ),
        (lambda: Normal[0.0], "Normal: write Normal[mean, std]"),
        (lambda: Kaiming[3], "Kaiming takes no parameters: write Kaiming"),
        (lambda: Normal[0.0, -1.0], "Normal: std must be greater than 0, not -1.0"),
        (lambda: Normal["0", 1.0], "Normal: mean must be a number, not '0'"),
        (lambda: ScaledKaiming[1, 0], "ScaledKaiming: den must be greater than 0, not 0"),
    ],
)
def test_one_message_for_each_mistake(make: Any, message: str):
    with pytest.raises(OptionError) as found:
        make()
    assert str(found.value) == message
