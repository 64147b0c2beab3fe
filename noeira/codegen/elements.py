"""The dtypes as C and CUDA have them: one row each of everything that texts and tables need."""

from __future__ import annotations

from dataclasses import dataclass

from noeira.ir.types import DTYPE_BYTES


@dataclass(frozen=True)
class Element:
    """A dtype in C: `suffix` ends libm functions and literals, `x86` its intrinsics, `lowest` is
    the text of its least finite number. Only dtypes with these have vectors and arithmetic; 16-bit
    floats are stored as their bits.
    """

    dtype: str
    ctype: str
    suffix: str = ""
    x86: str = ""
    lowest: str = ""

    @property
    def bytes(self) -> int:
        """Bytes of an element."""
        return DTYPE_BYTES[self.dtype]

    @property
    def bits(self) -> int:
        """Bits of an element."""
        return 8 * self.bytes

    @property
    def computes(self) -> bool:
        """Whether there are vectors of it, with arithmetic."""
        return bool(self.lowest)


ELEMENTS = {
    one.dtype: one
    for one in (
        Element("f32", "float", "f", "ps", "-0x1.fffffep127f"),
        Element("f64", "double", "", "pd", "-0x1.fffffffffffffp1023"),
        Element("bf16", "unsigned short"),
        Element("f16", "unsigned short"),
        Element("i32", "int"),
        Element("i64", "long long"),
        Element("u8", "unsigned char"),
        Element("bool", "unsigned char"),
    )
}
# Those that kernels compute in.
COMPUTED = tuple(one for one in ELEMENTS.values() if one.computes)


def ctype(dtype: str) -> str:
    """The C type of an element."""
    return ELEMENTS[dtype].ctype
