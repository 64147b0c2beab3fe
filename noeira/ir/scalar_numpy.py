"""Scalar expressions in NumPy: what every element-wise reference is evaluated by."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from noeira.ir.arrays import numpy_dtype
from noeira.ir.scalar import COMPARISONS, Expr, parts

if TYPE_CHECKING:
    import numpy as np


def evaluate(
    expr: Expr, values: Mapping[str, np.ndarray], dtype: str, shape: tuple[int, ...]
) -> np.ndarray:
    """The expression in NumPy over elements of a shape, every operation in `dtype`, one of those
    that are computed in; what is stored in another one becomes that first.
    """
    import numpy as np

    from noeira.ir.random import uniform24

    known: dict[Expr, Any] = {}
    computed = numpy_dtype(dtype)

    def compute(e: Expr) -> Any:
        if e.op == "var":
            return np.asarray(values[e.args[0]]).astype(computed, copy=False)
        if e.op == "const":
            return np.asarray(e.args[0], computed)
        if e.op == "uniform":
            seed, tick, stream = (int(values[arg.args[0]]) for arg in e.args)
            drawn = uniform24(seed, stream, math.prod(shape), tick)
            return drawn.astype(computed).reshape(shape)
        return numpy_function(e.op)(*[known[arg] for arg in e.args])

    with np.errstate(all="ignore"):
        for part in parts(expr, unread="uniform"):
            known[part] = compute(part)
        result = np.asarray(known[expr], computed)
        return result if result.shape == shape else np.broadcast_to(result, shape).copy()


def numpy_function(name: str) -> Callable[..., Any]:
    """The NumPy form of an operation."""
    import numpy as np

    special: dict[str, Callable[..., Any]] = {
        "+": np.add,
        "-": np.subtract,
        "*": np.multiply,
        "/": np.divide,
        "neg": np.negative,
        "select": np.where,
        "max": np.maximum,
        "min": np.minimum,
        "pow": np.power,
        "sigmoid": numpy_sigmoid,
        "softplus": lambda a: np.logaddexp(a.dtype.type(0), a),
        "erf": lambda a: by_libm(math.erf, a),
        "normal_cdf": lambda a: by_libm(lambda x: 0.5 * math.erfc(-x * math.sqrt(0.5)), a),
        "normal_pdf": lambda a: (
            np.exp(a * a * a.dtype.type(-0.5)) * a.dtype.type(1 / math.sqrt(2 * math.pi))
        ),
    }
    return special.get(name) or getattr(np, COMPARISONS.get(name, name))


def numpy_sigmoid(a: np.ndarray) -> np.ndarray:
    """1 / (1 + exp(-a)) without overflow on either side."""
    import numpy as np

    small = np.exp(-np.abs(a))
    return np.where(a >= 0, 1 / (1 + small), small / (1 + small))


def by_libm(function: Callable[[float], float], a: np.ndarray) -> np.ndarray:
    """A function that NumPy has not, an element at a time."""
    import numpy as np

    return np.asarray(np.frompyfunc(function, 1, 1)(a), np.float64).astype(a.dtype)
