"""Dtype names as NumPy dtypes, and what rounding to one does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from noeira.ir.types import DTYPES, FLOATS

if TYPE_CHECKING:
    import numpy as np


def numpy_dtype(name: str) -> np.dtype:
    """The NumPy dtype of a dtype name; bf16 is of the package `ml_dtypes`."""
    import numpy as np

    row = DTYPES[name]
    if row.package == "ml_dtypes":
        import ml_dtypes

        return np.dtype(getattr(ml_dtypes, row.numpy))
    return np.dtype(row.numpy)


def dtype_name(dtype: np.dtype) -> str:
    """The dtype name of a NumPy dtype, or NumPy's own name if noeira has none."""
    own = dtype.name
    return next((row.name for row in DTYPES.values() if row.numpy == own), own)


def is_float(array: np.ndarray) -> bool:
    """Whether elements are floats: NumPy itself takes bf16 for bytes without a meaning."""
    row = DTYPES.get(dtype_name(array.dtype))
    return row.is_float if row else array.dtype.kind == "f"


def widened(array: np.ndarray) -> np.ndarray:
    """A 16-bit float as it is computed in, exactly; anything else as it is."""
    row = DTYPES.get(dtype_name(array.dtype))
    if row is None or row.computed in ("", row.name):
        return array
    return array.astype(numpy_dtype(row.computed))


def rounded(array: np.ndarray, dtype: str) -> np.ndarray:
    """Floats as a dtype stores them: to the nearest, ties to even; too large ones are infinite.
    What is wider than f32 becomes a 16-bit float by way of that.
    """
    import numpy as np

    with np.errstate(all="ignore"):
        computed = np.asarray(array).astype(numpy_dtype(DTYPES[dtype].computed), copy=False)
        return computed.astype(numpy_dtype(dtype), copy=False)


def in_float_dtype(array: np.ndarray, dtype: str) -> np.ndarray:
    """Floats as another dtype of floats stores them; anything else as it is."""
    known = is_float(array) and dtype_name(array.dtype) in FLOATS
    return rounded(array, dtype) if known and dtype in FLOATS else array


def shortest(number: np.ndarray) -> float:
    """A float, of an array without axes: the shortest decimal that its dtype rounds to it, so 0.001
    of an f32, and not the 0.0010000000474974513 that it is.
    """
    return float(str(number[()]))


def overflow(given: np.ndarray, made: np.ndarray) -> tuple[str, float] | None:
    """The first finite number of `given` that is infinite in `made`: where, and which."""
    import numpy as np

    if made is given or not is_float(made):
        return None
    lost = np.argwhere(np.isinf(made) & np.isfinite(given))
    if not len(lost):
        return None
    place = tuple(map(int, lost[0]))
    return ", ".join(map(str, place)), float(given[place])


def restored(array: np.ndarray, dtype: str) -> np.ndarray:
    """An array of a file that is to be of a dtype: `.npy` files keep the bits of bf16 and forget
    that they are such.
    """
    wanted = numpy_dtype(dtype)
    forgotten = wanted.kind == "V" and array.dtype.str.lstrip("<|") == f"V{wanted.itemsize}"
    return array.view(wanted) if forgotten and dtype_name(array.dtype) != dtype else array
