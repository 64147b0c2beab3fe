"""The matrices of Winograd's short convolutions F(m x m, 3 x 3), from the points of Toom and Cook.

Of y = A' ((G g) * (B' d)) in one axis, for m results of 3 taps g over m + 2 elements d: products of
polynomials, evaluated at m + 1 points and at infinity (Winograd, Arithmetic Complexity of
Computations, 1980; Lavin and Gray, Fast Algorithms for Convolutional Neural Networks, 2016). In two
axes it is A' ((G g G') * (B' d B)) A.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

Matrix = tuple[tuple[Fraction, ...], ...]

# Points beside infinity, by the results of a tile in an axis. With 1/2 and -2 rounding errors are a
# third of those with 2 and -2: each of two large powers meets small ones.
POINTS = {
    2: (Fraction(0), Fraction(1), Fraction(-1)),
    4: (Fraction(0), Fraction(1), Fraction(-1), Fraction(1, 2), Fraction(-2)),
}
TAPS = 3


@dataclass(frozen=True)
class Matrices:
    """taps: G, [m + 2, 3]; image: B', [m + 2, m + 2]; result: A', [m, m + 2]."""

    taps: Matrix
    image: Matrix
    result: Matrix


@lru_cache
def matrices(results: int) -> Matrices:
    """The matrices for tiles of so many results in an axis."""
    points = POINTS[results]
    taps, image = list[tuple[Fraction, ...]](), list[tuple[Fraction, ...]]()
    for point in points:
        others = [other for other in points if other != point]
        scale = Fraction(1)
        for other in others:
            scale *= point - other
        sign = 1 if scale > 0 else -1
        taps.append(tuple(sign * point**power / scale for power in range(TAPS)))
        image.append((*(sign * one for one in polynomial(others)), Fraction(0)))
    taps.append((*[Fraction(0)] * (TAPS - 1), Fraction(1)))
    image.append(polynomial(points))
    result = tuple(
        (*(point**power for point in points), Fraction(power == results - 1))
        for power in range(results)
    )
    return Matrices(tuple(taps), tuple(image), result)


def polynomial(roots: list[Fraction] | tuple[Fraction, ...]) -> tuple[Fraction, ...]:
    """The coefficients of the product of x - root over all roots, that of 1 first."""
    found = [Fraction(1)]
    for root in roots:
        shifted, scaled = [Fraction(0), *found], [*(root * one for one in found), Fraction(0)]
        found = [a - b for a, b in zip(shifted, scaled, strict=True)]
    return tuple(found)


def transposed(matrix: Matrix) -> Matrix:
    """The matrix with rows for columns."""
    return tuple(zip(*matrix, strict=True))
