"""Dtype names as NumPy dtypes."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

NAMES = {
    "f32": "float32",
    "f64": "float64",
    "f16": "float16",
    "i32": "int32",
    "i64": "int64",
    "u8": "uint8",
    "bool": "bool",
}


def numpy_dtype(name: str) -> np.dtype:
    """The NumPy dtype of a dtype name; bf16 has none."""
    import numpy as np

    return np.dtype(NAMES[name])


def dtype_name(dtype: np.dtype) -> str:
    """The dtype name of a NumPy dtype, or NumPy's own name if noeira has none."""
    own = dtype.name
    return next((name for name, long in NAMES.items() if long == own), own)
