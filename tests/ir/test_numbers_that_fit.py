"""Which numbers there are in a dtype: the same are refused on every target."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import noeira
from noeira.ir.arrays import numpy_dtype, rounded
from noeira.ir.builder import Builder
from noeira.ir.types import DTYPES, FLOATS, TensorType


@pytest.mark.parametrize("dtype", FLOATS)
def test_floats_fit_that_are_rounded_to_a_finite_one(dtype: str) -> None:
    largest = DTYPES[dtype].largest
    ends = [largest * (1 + 2.0**-bits) for bits in range(2, 54)] if dtype != "f64" else []
    for value in (*ends, 0.1, 1e-300, largest, -largest, *(-end for end in ends)):
        assert DTYPES[dtype].fits(value) == bool(np.isfinite(rounded(np.array(value), dtype)))
    assert all(map(DTYPES[dtype].fits, (np.inf, -np.inf, np.nan)))


@pytest.mark.parametrize("dtype", ["i32", "i64", "u8"])
def test_whole_numbers_fit_as_they_are(dtype: str) -> None:
    about = np.iinfo(numpy_dtype(dtype))
    assert all(map(DTYPES[dtype].fits, (int(about.min), int(about.max), 0.0, 3.0)))
    wrong = (int(about.min) - 1, int(about.max) + 1, 0.5, np.inf, -np.inf, np.nan)
    assert not any(map(DTYPES[dtype].fits, wrong))


@pytest.mark.parametrize(
    ("attrs", "said"),
    [
        ({"value": 1.5, "dtype": "i64"}, "constant: 1.5 does not fit in i64"),
        ({"value": 2**63, "dtype": "i64"}, "constant: 9.223372036854775808e+18 does not fit"),
        ({"value": -1, "dtype": "u8"}, "constant: -1.0 does not fit in u8"),
        ({"value": 1e300}, "constant: 1e+300 does not fit in f32"),
        ({"value": 2**53 + 1, "dtype": "i64"}, "value must be a number that a float of 64 bits"),
        ({"value": 10**400}, "value must be a number that a float of 64 bits has without loss"),
        ({"value": 1, "dtype": "f8"}, "constant: there is no dtype 'f8'; there are f32, f64"),
    ],
)
def test_constants_that_do_not_fit(attrs: dict[str, Any], said: str) -> None:
    said = re.escape(said.replace("9.223372036854775808e+18", repr(2.0**63)))
    with pytest.raises(noeira.NoeiraError, match=said):
        Builder("constants").emit("constant", **attrs)


@pytest.mark.parametrize(
    ("name", "attrs"),
    [
        ("scale", {"factor": 1e300}),
        ("sum", {"scale": -1e300}),
        ("broadcast", {"shape": (3,), "scale": 1e300}),
        ("leaky_relu", {"slope": 1e39}),
    ],
)
def test_factors_that_do_not_fit(name: str, attrs: dict[str, Any]) -> None:
    for dtype, fits in (("f32", False), ("bf16", False), ("f64", True)):
        builder = Builder("factors")
        x = builder.input("x", TensorType(dtype, (3,)))
        if fits:
            builder.emit(name, x, **attrs)
        else:
            with pytest.raises(noeira.DtypeError, match=f"{name}: -?1e.* does not fit in f32"):
                builder.emit(name, x, **attrs)
