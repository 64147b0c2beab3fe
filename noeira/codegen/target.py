"""What code generation asks of a target; and the kinds of vector units that C is generated for."""

from __future__ import annotations

import re
from collections.abc import Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from noeira.ir.types import DTYPE_BYTES

if TYPE_CHECKING:
    from noeira.codegen.gemm import Gemm
    from noeira.ir.choices import Choices, Problem, Row
    from noeira.ir.graph import Node
    from noeira.ir.plan import Choice

# What a GPU's thread reads or writes at a time, at most.
ACCESS_BYTES = 16

# The C type of each dtype; 16-bit floats are stored as their bits.
CTYPES = {
    "f32": "float",
    "f64": "double",
    "bf16": "unsigned short",
    "f16": "unsigned short",
    "i32": "int",
    "i64": "long long",
    "u8": "unsigned char",
    "bool": "unsigned char",
}


class Target(Protocol):
    """A language and a kind of machine that kernels are written for.

    name: as in plans, `c avx512`; language: `c` or `cuda`; ending: of the names of its templates;
    key: what of it decides a kernel's text, beside the choice.
    """

    @property
    def name(self) -> str: ...
    @property
    def language(self) -> str: ...
    @property
    def ending(self) -> str: ...
    @property
    def key(self) -> Hashable: ...
    @property
    def choices(self) -> Choices: ...

    def ctype(self, dtype: str) -> str:
        """The C type of an element."""
        ...

    def lanes(self, dtype: str) -> int:
        """Elements that are taken together."""
        ...

    def choose(self, node: Node) -> Choice:
        """The stages of a node's kernel, and its workspace."""
        ...

    def problem(self, node: Node) -> Problem | None:
        """What a node is in a table of choices; None if there is nothing to choose."""
        ...

    def row(self, node: Node) -> Row | None:
        """The row of its table of choices that decides a node's stages; None if the rule does."""
        ...

    def gemm_cut(self, gemm: Gemm, choice: Choice, symbol: str, dtype: str) -> Any:
        """What the template of a GEMM sees of how it is cut. Raises VerifyError if the stages do
        not fit its shape, or their workspace is too small.
        """
        ...


@dataclass(frozen=True)
class ISA:
    """One kind of vector unit; a source text is generated for exactly one."""

    name: str
    vector_bytes: int
    registers: int
    fma: bool

    def lanes(self, dtype: str) -> int:
        """Elements of `dtype` in one vector."""
        return self.vector_bytes // DTYPE_BYTES[dtype]


AVX512 = ISA("avx512", vector_bytes=64, registers=32, fma=True)
AVX2 = ISA("avx2", vector_bytes=32, registers=16, fma=True)
NEON = ISA("neon", vector_bytes=16, registers=32, fma=True)
# The compiler's own 16-byte vectors and no intrinsics: any other processor.
PLAIN = ISA("plain", vector_bytes=16, registers=16, fma=False)

ISAS = {isa.name: isa for isa in (AVX512, AVX2, NEON, PLAIN)}

# The macros a kind needs, the widest kind first: the first whose macros are all defined is taken.
REQUIRED_MACROS = (
    (AVX512, {"__AVX512F__", "__AVX512VL__", "__AVX512DQ__", "__AVX512BW__"}),
    (AVX2, {"__AVX2__", "__FMA__"}),
    (NEON, {"__ARM_NEON", "__aarch64__"}),
)


def isa_from_macros(text: str) -> ISA:
    """The widest kind that a compiler can build, from the output of `cc -march=native -dM -E`."""
    defined = set(re.findall(r"^\s*#\s*define\s+(\w+)", text, flags=re.MULTILINE))
    for isa, macros in REQUIRED_MACROS:
        if macros <= defined:
            return isa
    return PLAIN
