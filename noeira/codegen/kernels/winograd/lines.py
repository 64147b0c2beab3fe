"""Straight-line C for the product of a small matrix and vectors: `y = M x`, with shared sums.

Two elements that several rows add up in the same proportion are added once, for all of them; of
points p and -p that are the sums over even and over odd powers.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import combinations

from noeira.codegen.elements import literal
from noeira.codegen.kernels.winograd.matrices import Matrix

# What is left to add for a row: names, and what each is multiplied by.
Terms = dict[str, Fraction]
# Two names, and what the second is multiplied by where the first is as it is.
Pair = tuple[str, str, Fraction]


@dataclass(frozen=True)
class Lines:
    """The statements of a product: `inputs` x0, … and `outputs` *y0, … are their parameters."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    statements: tuple[str, ...]


@lru_cache
def lines_of(matrix: Matrix, dtype: str) -> Lines:
    """The statements for `y = matrix x` over vectors of a dtype."""
    inputs = tuple(f"x{column}" for column in range(len(matrix[0])))
    rows: list[Terms] = [
        {name: factor for name, factor in zip(inputs, row, strict=True) if factor} for row in matrix
    ]
    statements = list[str]()
    while shared := best_pair(rows):
        first, second, ratio = shared
        name = f"s{len(statements)}"
        value = added({first: Fraction(1), second: ratio}, dtype)
        statements.append(f"const {dtype}v {name} = {value};")
        for row in rows:
            if proportion(row, first, second) == ratio:
                row[name] = row.pop(first)
                del row[second]
    outputs = tuple(f"y{row}" for row in range(len(rows)))
    statements += [f"*{y} = {added(row, dtype)};" for y, row in zip(outputs, rows, strict=True)]
    return Lines(inputs, outputs, tuple(statements))


def best_pair(rows: list[Terms]) -> Pair | None:
    """The pair that most rows have, at least two, in the order of their names; None without one."""
    counts = Counter[Pair]()
    for row in rows:
        for first, second in combinations(sorted(row), 2):
            counts[first, second, row[second] / row[first]] += 1
    most = max(counts.values(), default=0)
    if most < 2:
        return None
    return min(pair for pair, count in counts.items() if count == most)


def proportion(row: Terms, first: str, second: str) -> Fraction | None:
    """What the second is multiplied by where the first is as it is; None if a row has not both."""
    return row[second] / row[first] if first in row and second in row else None


def added(row: Terms, dtype: str) -> str:
    """C text for the sum of terms: those that are not multiplied first, then by fma; a factor that
    all have is that of the sum.
    """
    common = {abs(factor) for factor in row.values()}
    if len(row) > 1 and len(common) == 1 and (factor := common.pop()) != 1:
        number = f"set_{dtype}({literal(float(factor), dtype)})"
        plain = {name: one / factor for name, one in row.items()}
        return f"{number} * ({added(plain, dtype)})"
    terms = sorted(row.items(), key=lambda term: (abs(term[1]) != 1, term[1] < 0))
    text = ""
    for name, factor in terms:
        number = f"set_{dtype}({literal(float(abs(factor)), dtype)})"
        if abs(factor) == 1:
            sign = " - " if factor < 0 else " + "
            text = f"{text}{sign}{name}" if text else name if factor > 0 else f"-{name}"
        elif not text:
            text = f"{number} * {name}" if factor > 0 else f"-{number} * {name}"
        else:
            text = f"{'fma' if factor > 0 else 'fnma'}_{dtype}({number}, {name}, {text})"
    return text
