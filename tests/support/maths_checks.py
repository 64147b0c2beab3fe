"""What is asked of the functions of a prelude, that of C units and that of CUDA units: arguments to
apply them to, and how far their results may be from exact values or NumPy's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container
from functools import cache

import numpy as np
from vector_maths import DTYPES, NORMAL, Expected, widened

# A program that applies the named function, such as `exp_f32`, to arrays of equal length.
Apply = Callable[..., np.ndarray]

# The least and greatest arguments beyond which a result no longer changes, or is no number.
SPANS = {
    "f32": {"exp": (-106, 90), "expm1": (-20, 90), "tanh": (-10, 10), "erf": (-4.5, 4.5)},
    "f64": {"exp": (-748, 711), "expm1": (-40, 711), "tanh": (-20, 20), "erf": (-6.5, 6.5)},
}
WIDE = {"f32": 106, "f64": 748}

EDGES = {
    "f32": [88.72283, 88.72284, -87.33654, -87.33655, -103.27893, -103.97, -103.98, -104.5]
    + [2.0**k for k in (-149, -148, -127, -126, -24, -25, 26, 127)]
    + [1.17549e-38, 3.4028234e38, 0.84, 9.2, -0.99999994, 1.0000001, 0.99999994, 1.4142135],
    "f64": [709.782712893384, 709.7827128933841, -708.3964185322641, -745.13, -745.14, -746.0]
    + [2.0**k for k in (-1074, -1073, -1023, -1022, -53, -54, 53, 1023)]
    + [2.2250738585072e-308, 1.7976931348623157e308, -0.9999999999999999, 1.0000000000000002],
}


@cache
def points(name: str, dtype: str, count: int) -> np.ndarray:
    """Arguments: edges, all bit patterns, and where the function does most."""
    generator = np.random.default_rng(0)
    low, high = SPANS[dtype].get(name, (-WIDE[dtype], WIDE[dtype]))
    edges = np.array([0.0, 1.0, 2.0, 100.0, 1000.0, math.inf, math.nan, *EDGES[dtype]])
    bits = np.frombuffer(generator.bytes(count // 8 * DTYPES[dtype].itemsize), DTYPES[dtype])
    small = generator.choice([-1, 1], count // 4) * 2.0 ** generator.uniform(-40, 3, count // 4)
    parts = [edges, -edges, generator.uniform(low, high, count // 2), small, bits]
    x = np.concatenate([part.astype(DTYPES[dtype]) for part in parts])
    if name in ("log", "log1p"):
        # Below the domain all is NaN: one argument in eight is enough of that.
        x = np.where((x < 0) & (generator.random(len(x)) < 0.875), -x, x)
    if name == "log":
        close = 1 + generator.uniform(-0.5, 0.5, count // 4) ** 3
        x = np.concatenate([x, close.astype(x.dtype)])
    if name == "log1p":
        x = np.concatenate([x, generator.uniform(-1, 0.5, count // 4).astype(x.dtype)])
    return x


def check_errors(program: Apply, name: str, x: np.ndarray, values: Expected, limit: float) -> None:
    """The function at x must be within so many units in the last place of the exact values."""
    function = f"{name}_{values.dtype}"
    errors = values.errors(program(function, x))
    worst = int(np.argmax(errors))
    assert errors[worst] <= limit, f"{function} at {x[worst]!r}: {errors[worst]:.3f} ulp"


# In units of the last place of numbers from 1/2 to 1, which a probability is.
NORMAL_LIMITS = {"f32": {"normal_cdf": 1.7, "normal_pdf": 0.9}, "f64": dict.fromkeys(NORMAL, 1.5)}


def check_normal(program: Apply, name: str, x: np.ndarray, erfc: Callable[[float], float]) -> None:
    """A function of the normal distribution must be within its limit."""
    (dtype,) = (dtype for dtype, kind in DTYPES.items() if kind == x.dtype)
    wide = widened(x)
    if name == "normal_cdf":
        values = 0.5 * np.array([erfc(value) for value in (-wide * math.sqrt(0.5)).tolist()])
    else:
        values = np.exp(-0.5 * wide * wide) / math.sqrt(2 * math.pi)
    distance = np.abs(widened(program(f"{name}_{dtype}", x)) - values)
    errors = distance * (2.0 / np.finfo(x.dtype).eps)
    worst = int(np.argmax(errors))
    assert errors[worst] <= NORMAL_LIMITS[dtype][name], f"at {x[worst]!r}: {errors[worst]:.3f}"


# Arguments and results.
SPECIALS = {
    "exp": ([math.inf, -math.inf, 0.0, -0.0, 1e30, -1e30], [math.inf, 0, 1, 1, math.inf, 0]),
    "expm1": ([math.inf, -math.inf, 0.0, -0.0, 1e30], [math.inf, -1, 0.0, -0.0, math.inf]),
    "log": ([math.inf, 0.0, -0.0, 1, -1], [math.inf, -math.inf, -math.inf, 0.0, math.nan]),
    "log1p": ([math.inf, 0.0, -0.0, -1, -1.5], [math.inf, 0.0, -0.0, -math.inf, math.nan]),
    "tanh": ([math.inf, -math.inf, 0.0, -0.0, 1e30, -1e30], [1, -1, 0.0, -0.0, 1, -1]),
    "sigmoid": ([math.inf, -math.inf, 0.0, -0.0, 1e30, -1e30], [1, 0, 0.5, 0.5, 1, 0]),
    "erf": ([math.inf, -math.inf, 0.0, -0.0, 1e30, -1e30], [1, -1, 0.0, -0.0, 1, -1]),
    "softplus": ([math.inf, -math.inf, 1e30, -1e30], [math.inf, 0, 1e30, 0]),
    "sin": ([math.inf, -math.inf, 0.0, -0.0], [math.nan, math.nan, 0.0, -0.0]),
    "cos": ([math.inf, -math.inf, 0.0, -0.0], [math.nan, math.nan, 1, 1]),
    "normal_cdf": ([math.inf, -math.inf, 0.0, -0.0, 1e30, -1e30], [1, 0, 0.5, 0.5, 1, 0]),
    "normal_pdf": ([math.inf, -math.inf, 1e30, -1e30], [0, 0, 0, 0]),
}


def check_specials(program: Apply, dtype: str) -> None:
    """Infinities, NaN and the sign of zero."""
    for name, (arguments, results) in SPECIALS.items():
        x = np.array([*arguments, math.nan], DTYPES[dtype])
        right = np.array([*results, math.nan], DTYPES[dtype])
        y = program(f"{name}_{dtype}", x)
        np.testing.assert_array_equal(y, right, err_msg=name)
        check_signs(y, right, name)


def check_signs(y: np.ndarray, right: np.ndarray, name: str) -> None:
    """The signs of numbers, zeros among them."""
    number = ~np.isnan(right)
    signs = np.signbit(y[number]), np.signbit(right[number])
    np.testing.assert_array_equal(*signs, err_msg=f"signs of {name}")


def triples(dtype: str) -> list[np.ndarray]:
    """Three arrays with every triple of special values and some others."""
    special = np.array([0.0, -0.0, 1.0, -1.0, 2.5, -3e-39, 3e38, math.inf, -math.inf, math.nan])
    grid = np.meshgrid(special, special, special)
    others = np.random.default_rng(1).normal(size=(3, 4000))
    return [
        np.concatenate([axis.ravel(), other]).astype(DTYPES[dtype])
        for axis, other in zip(grid, others, strict=True)
    ]


# For fma NumPy has nothing in one rounding: it has its own test.
NUMPY = {
    "neg": lambda a, b, c: -a,
    "abs": lambda a, b, c: np.abs(a),
    "sign": lambda a, b, c: np.sign(a),
    "sqrt": lambda a, b, c: np.sqrt(a),
    "floor": lambda a, b, c: np.floor(a),
    "copysign": lambda a, b, c: np.copysign(a, b),
    "max": lambda a, b, c: np.maximum(a, b),
    "min": lambda a, b, c: np.minimum(a, b),
    "at_least_1": lambda a, b, c: np.maximum(a, 1),
    "at_most_1": lambda a, b, c: np.minimum(a, 1),
    "lt": lambda a, b, c: a < b,
    "le": lambda a, b, c: a <= b,
    "gt": lambda a, b, c: a > b,
    "ge": lambda a, b, c: a >= b,
    "eq": lambda a, b, c: a == b,
    "is_nan": lambda a, b, c: np.isnan(a),
    "select": lambda a, b, c: np.where(a < 0, b, c),
    "both": lambda a, b, c: (a < b) & (b < c),
    "either": lambda a, b, c: (a < b) | (b < c),
    "not": lambda a, b, c: ~(a < b),
    "minus_zero": lambda a, b, c: a + np.array(-0.0, a.dtype),
    "stream": lambda a, b, c: a,
}
SIGN_OF_ZERO_IS_FREE = ("max", "min", "at_least_1", "at_most_1")


def check_numpys(program: Apply, dtype: str, without: Container[str] = ()) -> None:
    """Arithmetic and comparisons must be NumPy's, but for those that the program is without."""
    arrays = triples(dtype)
    for name, formula in NUMPY.items():
        if name in without:
            continue
        y = program(f"{name}_{dtype}", *arrays)
        with np.errstate(invalid="ignore"):
            right = formula(*arrays).astype(DTYPES[dtype])
        np.testing.assert_array_equal(y, right, err_msg=name)
        if name not in SIGN_OF_ZERO_IS_FREE:
            check_signs(y, right, name)


def check_fma(program: Apply, once: bool) -> None:
    """fma and fnma must round once, or else as a product and a sum do."""
    a, b, c = np.random.default_rng(2).normal(size=(3, 4000)).astype("f4")
    product = a.astype("f8") * b.astype("f8")  # exact
    for name, sign in (("fma", 1), ("fnma", -1)):
        twice = c + np.float32(sign) * (a * b)
        # Two roundings here too, but the first, to 53 digits, decides nothing in these samples.
        right = (c + sign * product).astype("f4") if once else twice
        np.testing.assert_array_equal(program(f"{name}_f32", a, b, c), right)
