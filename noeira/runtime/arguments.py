"""Checks what a user passes in, and makes it what a program can read: one clear message for each
mistake.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from noeira.errors import DtypeError, ShapeError
from noeira.ir.arrays import NAMES, dtype_name, numpy_dtype
from noeira.ir.graph import Input

if TYPE_CHECKING:
    import numpy as np


def as_array(name: str, given: Any) -> np.ndarray:
    """NumPy's view of an array: NumPy's own, or anything that speaks DLPack. Raises DtypeError."""
    import numpy as np

    if isinstance(given, np.ndarray):
        return given
    if hasattr(given, "__dlpack__"):
        return np.from_dlpack(given)
    kind = f"{name} is a {type(given).__name__}, not an array"
    if isinstance(given, (list, tuple, int, float)):
        raise DtypeError(f"{kind}: write np.asarray({name}, np.float32)")
    raise DtypeError(kind)


def checked(declared: Input, given: Any, rows: str = "") -> np.ndarray:
    """A C-contiguous array of the declared type, without a copy where possible.

    rows: what to say if only the number of rows is wrong. Raises ShapeError or DtypeError.
    """
    name, type = declared.value.name, declared.value.type
    array = converted(name, as_array(name, given), type.dtype)
    if array.shape != type.shape:
        if rows and array.shape[1:] == type.shape[1:] and array.ndim == len(type.shape):
            raise ShapeError(f"{name} has {array.shape[0]} rows; {rows}")
        raise ShapeError(f"{name} has shape {array.shape}, it must be {type.shape}")
    return contiguous(in_range(declared, array), type.dtype)


def checked_rows(declared: Input, given: Any) -> np.ndarray:
    """Like `checked`, for any number of rows (at least one)."""
    name, type = declared.value.name, declared.value.type
    array = converted(name, as_array(name, given), type.dtype)
    if array.ndim != len(type.shape) or array.shape[1:] != type.shape[1:]:
        wanted = ", ".join(["N", *map(str, type.shape[1:])]) if type.shape[1:] else "N,"
        raise ShapeError(f"{name} has shape {array.shape}, it must be ({wanted})")
    if not array.shape[0]:
        raise ShapeError(f"{name} has no rows")
    return contiguous(in_range(declared, array), type.dtype)


def converted(name: str, array: np.ndarray, dtype: str) -> np.ndarray:
    """The array, if its dtype will do: any integers for an index, for floats the very dtype."""
    have = dtype_name(array.dtype)
    if have == dtype:
        return array
    if dtype in ("i32", "i64"):
        if array.dtype.kind in "iu":
            return array
        raise DtypeError(
            f"{name} is {array.dtype.name}; it must be integers: write {name}.astype(np.int32)"
        )
    long = NAMES.get(dtype, dtype)
    raise DtypeError(
        f"{name} is {array.dtype.name}; this program takes {long}: write {name}.astype(np.{long})"
    )


def in_range(declared: Input, array: np.ndarray) -> np.ndarray:
    """The array. Raises ShapeError that names the first row whose index is out of range."""
    import numpy as np

    limit = declared.limit
    if limit is None or not array.size:
        return array
    low, high = int(array.min()), int(array.max())
    if low < 0 or high >= limit:
        where = np.argwhere((array < 0) | (array >= limit))[0]
        value = int(array[tuple(where)])
        row = ", ".join(map(str, where)) if len(where) > 1 else int(where[0])
        name = declared.value.name
        raise ShapeError(f"{name}[{row}] is {value}; it must be from 0 to {limit - 1}")
    return array


def contiguous(array: np.ndarray, dtype: str) -> np.ndarray:
    """The array in row-major order and of the very dtype, copied if it is not."""
    import numpy as np

    return np.ascontiguousarray(array, numpy_dtype(dtype))
