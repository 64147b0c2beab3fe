"""Formulas over flat tensors: what all elements have in common is told apart, and reckoned once."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from noeira.ir.arrays import rounded
from noeira.ir.scalar import COMPARISONS, Expr, parts, var
from noeira.ir.scalar_numpy import evaluate

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class Formula:
    """results: an expression for an element of each result, over elements and numbers; numbers:
    those that all elements have in common, by the names that the results know them by, over
    scalars: reckoned in f64, then rounded to the dtype of the elements.
    """

    results: dict[str, Expr]
    numbers: dict[str, Expr]

    def evaluate(
        self, scalars: Mapping[str, float], elements: Mapping[str, np.ndarray], dtype: str
    ) -> dict[str, np.ndarray]:
        """The results in NumPy, elements in a dtype."""
        shape = next(iter(elements.values())).shape
        numbers = {
            name: rounded(evaluate(expr, wide(scalars), "f64", ()), dtype)
            for name, expr in self.numbers.items()
        }
        values = numbers | dict(elements)
        return {name: evaluate(e, values, dtype, shape) for name, e in self.results.items()}


def wide(scalars: Mapping[str, float]) -> dict[str, np.ndarray]:
    """Numbers in f64."""
    import numpy as np

    return {name: np.asarray(value, np.float64) for name, value in scalars.items()}


def formula(results: Mapping[str, Expr], elements: Collection[str]) -> Formula:
    """The results, which read the variables in `elements` for each element and all others once: the
    largest subexpressions without an element become numbers. A literal stays one.
    """
    numbers, made = dict[Expr, str](), dict[Expr, Expr]()
    own = set[Expr]()
    for part in (part for expr in results.values() for part in parts(expr)):
        if (part.op == "var" and part.args[0] in elements) or own.intersection(part.operands):
            own.add(part)

    def visit(expr: Expr) -> Expr:
        if expr not in made:
            made[expr] = divided(expr)
        return made[expr]

    def divided(expr: Expr) -> Expr:
        if expr.op == "const" or (expr.op == "var" and expr in own):
            return expr
        if expr not in own and expr.op not in COMPARISONS:
            return var(numbers.setdefault(expr, f"number {len(numbers)}"))
        return Expr(expr.op, tuple(map(visit, expr.args)))

    found = {name: visit(expr) for name, expr in results.items()}
    return Formula(found, {name: expr for expr, name in numbers.items()})
