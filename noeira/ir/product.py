"""The product of matrices that a contraction is, as its op describes it to kernels."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Product:
    """m x n elements, each a sum over k: left [m, k] times right [k, n], row major, leading axes
    folded.

    left, right: operands of the op, by name; one that is transposed lies as [k, m] or [n, k]. bias:
    an operand of n elements that is added to each row, "" for none. batch: how many such products
    there are, one after the other in all operands but the bias.
    """

    m: int
    n: int
    k: int
    left: str
    right: str
    transpose_left: bool = False
    transpose_right: bool = False
    bias: str = ""
    batch: int = 1

    @property
    def operands(self) -> dict[str, int]:
        """The elements of each operand."""
        sizes = {self.left: self.batch * self.m * self.k, self.right: self.batch * self.k * self.n}
        return sizes | ({self.bias: self.n} if self.bias else {})

    @property
    def size(self) -> int:
        """The elements of the result."""
        return self.batch * self.m * self.n

    @property
    def flops(self) -> int:
        """Operations, a multiply-add counting as two."""
        return self.size * (2 * self.k + bool(self.bias))
