"""The matrix products that are measured, and the graph of one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from entries import Case

    from noeira.ir.builder import Builder
    from noeira.ir.graph import Value

# A fully connected layer with few rows and one with many, their gradients, and squares.
SHAPES = """
100,784,256  100,256,784,nt  784,100,256,tn  1024,384,1536  1024,1536,384,nt  384,1024,1536,tn
512,512,512  1024,1024,1024  2048,2048,2048  4096,4096,4096
"""
# Other fully connected layers with their gradients; parts of transformers; odd sizes.
MORE_SHAPES = """
1,784,256  1,256,128  1,128,10  1,256,784,nt  784,1,256,tn  8,2048,2048  16,512,512  32,1024,1024
100,256,128  100,128,10  100,10,128,nt  128,100,10,tn  256,100,128,tn  1024,784,256
784,1024,256,tn  1024,256,128  1024,128,10  128,1024,10,tn
64,64,64  256,64,256  256,256,64  256,384,1152  768,128,512  1024,384,384  384,1024,384,tn
1024,384,65  1024,65,384,nt  512,768,3072  512,3072,768,nt  768,512,3072,tn
17,33,65  31,1000,1  100,100,100  127,127,127  257,129,511  333,777,555  999,1,777  1,1000,1000
64,20000,64  1000,1000,1000
"""
LARGE = 2048**3


@dataclass(frozen=True)
class Shape:
    """op(a)[m, k] @ op(b)[k, n]"""

    m: int
    k: int
    n: int
    kind: str = "nn"

    @classmethod
    def of(cls, text: str) -> Shape:
        """From `M,K,N` or `M,K,N,nt`. Raises ValueError."""
        m, k, n, kind = [*text.split(","), "nn"][:4]
        if kind not in ("nn", "nt", "tn"):
            raise ValueError(f"{text}: {kind} is none of nn, nt, tn")
        return cls(int(m), int(k), int(n), kind)

    def __str__(self) -> str:
        return f"{self.m}x{self.k}x{self.n} {self.kind}"

    @property
    def transpose_a(self) -> bool:
        """Whether the left operand is stored [k, m]."""
        return self.kind[0] == "t"

    @property
    def transpose_b(self) -> bool:
        """Whether the right operand is stored [n, k]."""
        return self.kind[1] == "t"

    @property
    def operands(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """As they are stored."""
        m, k, n = self.m, self.k, self.n
        return (k, m) if self.transpose_a else (m, k), (n, k) if self.transpose_b else (k, n)

    @property
    def flops(self) -> int:
        """Of the product."""
        return 2 * self.m * self.k * self.n


def product(shape: Shape, dtype: str) -> Case:
    """A graph of one matmul."""
    from entries import Case

    from noeira.ir.types import TensorType

    def build(builder: Builder) -> Sequence[Value]:
        a, b = (
            builder.input(name, TensorType(dtype, sizes))
            for name, sizes in zip("ab", shape.operands, strict=True)
        )
        turned_a, turned_b = shape.transpose_a, shape.transpose_b
        return [builder.emit("matmul", a, b, transpose_a=turned_a, transpose_b=turned_b)]

    return Case("matmul", (shape.m, shape.k, shape.n), 0, build)
