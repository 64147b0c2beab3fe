"""The kinds of vector units that C is generated for."""

from __future__ import annotations

import re
from dataclasses import dataclass

from noeira.ir.types import DTYPE_BYTES


@dataclass(frozen=True)
class ISA:
    """One kind of vector unit; a source text is generated for exactly one.

    macros: what a compiler for it defines; machine: what it is called where these are missing.
    """

    name: str
    vector_bytes: int
    registers: int
    fma: bool
    macros: tuple[str, ...] = ()
    machine: str = ""

    def lanes(self, dtype: str) -> int:
        """Elements of `dtype` in one vector."""
        return self.vector_bytes // DTYPE_BYTES[dtype]


AVX512 = ISA(
    "avx512",
    vector_bytes=64,
    registers=32,
    fma=True,
    macros=("__AVX512F__", "__AVX512VL__", "__AVX512DQ__", "__AVX512BW__"),
    machine="AVX-512",
)
AVX2 = ISA(
    "avx2",
    vector_bytes=32,
    registers=16,
    fma=True,
    macros=("__AVX2__", "__FMA__"),
    machine="AVX2 with FMA",
)
NEON = ISA(
    "neon",
    vector_bytes=16,
    registers=32,
    fma=True,
    macros=("__ARM_NEON", "__aarch64__"),
    machine="64-bit Arm with NEON",
)
# The compiler's own 16-byte vectors and no intrinsics: any other processor.
PLAIN = ISA("plain", vector_bytes=16, registers=16, fma=False)

# The widest first.
ISAS = {isa.name: isa for isa in (AVX512, AVX2, NEON, PLAIN)}


def isa_from_macros(text: str) -> ISA:
    """The widest kind that a compiler can build, from the output of `cc -march=native -dM -E`."""
    defined = set(re.findall(r"^\s*#\s*define\s+(\w+)", text, flags=re.MULTILINE))
    return next(isa for isa in ISAS.values() if defined.issuperset(isa.macros))
