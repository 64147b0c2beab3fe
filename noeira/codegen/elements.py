"""The dtypes as C and CUDA have them: one row each of everything that texts and tables need, and
their literals.
"""

from __future__ import annotations

import math
import re
import struct
from dataclasses import dataclass

from noeira.errors import VerifyError
from noeira.ir import types
from noeira.ir.types import DTYPES


@dataclass(frozen=True)
class Element:
    """A dtype in C: `suffix` ends literals, and of floats the functions of libm; `x86`: its
    intrinsics. Only dtypes that are computed in have vectors and arithmetic; 16-bit floats are
    stored as their bits.
    """

    dtype: str
    ctype: str
    suffix: str = ""
    x86: str = ""

    @property
    def bytes(self) -> int:
        """Bytes of an element."""
        return DTYPES[self.dtype].bytes

    @property
    def bits(self) -> int:
        """Bits of an element."""
        return 8 * self.bytes

    @property
    def is_float(self) -> bool:
        """Whether it is a float."""
        return DTYPES[self.dtype].is_float

    @property
    def rounds(self) -> bool:
        """Whether it is a float that is not computed in: 16 bits, of which texts have the bits."""
        return self.dtype in types.ROUNDED

    def widened(self, text: str) -> str:
        """C text for the number of an element of it."""
        return f"widen_{self.dtype}({text})" if self.rounds else text

    def narrowed(self, text: str) -> str:
        """C text for a number, C text too, rounded to an element of it."""
        return f"narrow_{self.dtype}({text})" if self.rounds else f"({self.ctype}){text}"

    @property
    def lowest(self) -> str:
        """The text of its least finite number, if it is computed in."""
        digits = re.sub(r"0*p\+", "p", DTYPES[self.dtype].largest.hex())
        return f"-{digits}{self.suffix}"


ELEMENTS = {
    one.dtype: one
    for one in (
        Element("f32", "float", "f", "ps"),
        Element("f64", "double", "", "pd"),
        Element("bf16", "unsigned short"),
        Element("f16", "unsigned short"),
        Element("i32", "int"),
        Element("i64", "long long", "ll"),
        Element("u8", "unsigned char"),
        Element("bool", "unsigned char"),
    )
}
# Bytes of an element of what lies in memory: of all dtypes, and of the bits that sorts go by, which
# no value has.
STORAGE_BYTES = {dtype: one.bytes for dtype, one in ELEMENTS.items()} | {"u64": 8}
# Those that kernels compute in.
COMPUTED = tuple(ELEMENTS[dtype] for dtype in types.COMPUTED)


# Every dtype with one that it may be computed in and is not stored as: in that which it is computed
# in itself, or in a wider one.
STORED = tuple(
    (stored, wide)
    for wide in COMPUTED
    for stored in ELEMENTS.values()
    if stored is not wide and types.computed(stored.dtype) in ("", "f32")
)


def form(dtype: str, computed: str) -> str:
    """What the names of loads, stores and roundings end in of what is stored as one dtype and
    computed in another: `load_f32`, `load_bf16`, `load_i32_f32`, `load_bf16_f64`.
    """
    return dtype if types.computed(dtype) == computed else f"{dtype}_{computed}"


def ctype(dtype: str) -> str:
    """The C type of an element."""
    return "unsigned long long" if dtype == "u64" else ELEMENTS[dtype].ctype


def literal(value: float, dtype: str) -> str:
    """A number as C text of the dtype: of a float that is computed in, a short decimal as it is and
    others in hexadecimal, so that no digit is lost; of a 16-bit float its bits.

    Raises VerifyError for a number that there is not in the dtype.
    """
    element = ELEMENTS[dtype]
    if not element.is_float:
        return whole_literal(value, element)
    if dtype in types.ROUNDED:
        return f"0x{stored_bits(value, dtype):04x}"
    if dtype == "f32":
        try:
            value = struct.unpack("<f", struct.pack("<f", value))[0]
        except OverflowError:
            raise VerifyError(f"{value} does not fit in f32") from None
    if math.isinf(value) or math.isnan(value):
        return {math.inf: "INFINITY", -math.inf: "(-INFINITY)"}.get(value, "NAN")
    text = repr(float(f"{value:.6g}"))
    return f"{text if float(text) == value else value.hex()}{element.suffix}"


def whole_literal(value: float, element: Element) -> str:
    """A whole number. Raises VerifyError if there is none of that dtype."""
    dtype = DTYPES[element.dtype]
    if not dtype.fits(value):
        raise VerifyError(f"{value} is no {element.dtype}")
    number = int(value)
    # A minus sign is an operator: of the least number the digits alone would be too large.
    if number == -dtype.largest - 1:
        return f"({number + 1}{element.suffix} - 1)"
    return f"{number}{element.suffix}"


def stored_bits(value: float, dtype: str) -> int:
    """The bits of a number as a 16-bit float, rounded as kernels round it."""
    import numpy as np

    from noeira.ir.arrays import rounded

    return int(rounded(np.array(value), dtype).view(np.uint16))
