"""The dtypes, one row each, and the types of values, a dtype and a shape.

What a value is stored as and what its elements are computed in are two things. A 16-bit float is
f32 as soon as it is read, and is rounded to the nearest, ties to even, each time it is stored: also
the values between the ops of one kernel, so that a fused kernel gives the bits of its parts.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Dtype:
    """bytes: of an element; is_float: else elements are whole numbers, or true and false.

    numpy: what NumPy calls it, an attribute of `package`. computed: the dtype of arithmetic on its
    elements; "" where there is none. largest: the greatest finite number.
    """

    name: str
    bytes: int
    numpy: str
    largest: float
    is_float: bool = False
    computed: str = ""
    package: str = "np"

    @property
    def written(self) -> str:
        """As in a user's code: `np.float32`."""
        return f"{self.package}.{self.numpy}"

    def fits(self, value: float) -> bool:
        """Whether there is a number in the dtype: of floats one that it is rounded to, which is
        finite if the number is.
        """
        if not math.isfinite(value):
            return self.is_float
        if self.is_float:
            # From half way to the power of two above the largest on, the nearest is infinite.
            above = 2 ** math.frexp(self.largest)[1]
            return 2 * int(abs(value)) < int(self.largest) + above
        return int(value) == value and self.least <= value <= int(self.largest)

    @property
    def least(self) -> int:
        """The least of the whole numbers that there are in it."""
        return -int(self.largest) - 1 if self.numpy.startswith("int") else 0

    def number(self, text: str) -> float:
        """The number of a text, a whole one without loss."""
        return float(text) if self.is_float else int(text)


DTYPES = {
    one.name: one
    for one in (
        Dtype("f32", 4, "float32", float.fromhex("0x1.fffffep127"), True, "f32"),
        Dtype("f64", 8, "float64", float.fromhex("0x1.fffffffffffffp1023"), True, "f64"),
        Dtype("bf16", 2, "bfloat16", float.fromhex("0x1.fep127"), True, "f32", "ml_dtypes"),
        Dtype("f16", 2, "float16", float.fromhex("0x1.ffcp15"), True, "f32"),
        Dtype("i32", 4, "int32", 2**31 - 1),
        Dtype("i64", 8, "int64", 2**63 - 1),
        Dtype("u8", 1, "uint8", 2**8 - 1),
        Dtype("bool", 1, "bool", 1),
    )
}
DTYPE_BYTES = {one.name: one.bytes for one in DTYPES.values()}
FLOATS = tuple(one.name for one in DTYPES.values() if one.is_float)
# Those of numbers that are added up over calls.
ADDED = ("f32", "f64", "i64")
# Those of whole numbers, which may number something, and then have a limit.
INDICES = ("i32", "i64", "u8")
# Those that arithmetic is done in, and those that are not stored as they are computed in.
COMPUTED = tuple(one.name for one in DTYPES.values() if one.computed == one.name)
ROUNDED = tuple(name for name in FLOATS if name not in COMPUTED)


def computed(dtype: str) -> str:
    """The dtype that elements of a float dtype are computed in, and sums of them accumulated."""
    return DTYPES[dtype].computed


def computed_in(dtypes: Iterable[str]) -> str:
    """The dtype that a computation on values of these dtypes is done in: the widest that one of its
    floats is; "" if there is no float.
    """
    wide = {DTYPES[dtype].computed for dtype in dtypes} - {""}
    return max(wide, key=DTYPE_BYTES.__getitem__, default="")


# Bytes: where a value begins in memory, of the host and of a device.
ALIGNMENT = 64


def padded(nbytes: int) -> int:
    """The bytes up to the next place in memory at which a value may begin."""
    return -(-nbytes // ALIGNMENT) * ALIGNMENT


@dataclass(frozen=True)
class TensorType:
    """A dense tensor, `f32[100, 784]`, or a flat one with the parts of `f32 @net`. It lies row
    major, or in another order of its axes, `f32[32, 64, 16, 16] nhwc`, see `noeira.ir.orders`.
    """

    dtype: str
    shape: tuple[int, ...]
    layout: str | None = None
    order: str = ""

    def __str__(self) -> str:
        if self.layout is not None:
            return f"{self.dtype} @{self.layout}"
        order = f" {self.order}" if self.order else ""
        return f"{self.dtype}[{', '.join(map(str, self.shape))}]{order}"

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Number of bytes."""
        return self.size * DTYPES[self.dtype].bytes

    @property
    def is_float(self) -> bool:
        """Whether the dtype is a floating-point one."""
        return self.dtype in FLOATS

    @property
    def fault(self) -> str:
        """What no value may have; "" if it has none: axes without an element, too many bytes, a
        dtype that there is not.
        """
        if self.dtype not in DTYPES:
            return f"is of none of the dtypes: {', '.join(DTYPES)}"
        if (least := min(self.shape, default=1)) <= 0:
            return f"has {'a negative' if least else 'an empty'} axis"
        return "" if self.nbytes < 2**63 else "has more bytes than memory can have"


Types = tuple[TensorType, ...]
