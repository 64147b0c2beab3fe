"""Axis lengths as expressions: whole numbers, variables, and sums, products and floor quotients of
them.

An expression is kept in one normal form, a sum of atoms with whole coefficients, so that two
lengths are equal exactly
when their difference is the number 0: `(H + 2 - 3)//1 + 1` is `H`, `(2*H + 5)//2` is `H + 2`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True)
class Name:
    """A variable, such as the height H of an image that is not known yet."""

    text: str


@dataclass(frozen=True)
class Product:
    """A product of two or more atoms, sorted by their text."""

    factors: tuple[Atom, ...]


@dataclass(frozen=True)
class Quotient:
    """A floor quotient that does not divide out."""

    dividend: Sum
    divisor: Axis


@dataclass(frozen=True)
class Sum:
    """A sum of atoms, each with a whole coefficient, and a constant.

    Made by the functions below only.
    """

    terms: tuple[tuple[Atom, int], ...]
    constant: int

    def __str__(self) -> str:
        return text(self)


Atom: TypeAlias = Name | Product | Quotient
Axis: TypeAlias = int | Sum


def variable(name: str) -> Sum:
    """The variable called `name`."""
    return Sum(((Name(name), 1),), 0)


def bare_name(axis: Axis) -> str | None:
    """The name of an axis that is just a variable; None for any other."""
    if isinstance(axis, Sum) and axis.constant == 0 and len(axis.terms) == 1:
        (atom, coefficient) = axis.terms[0]
        if isinstance(atom, Name) and coefficient == 1:
            return atom.text
    return None


def add(left: Axis, right: Axis) -> Axis:
    """left + right"""
    terms = dict(terms_of(left))
    for atom, coefficient in terms_of(right):
        terms[atom] = terms.get(atom, 0) + coefficient
    return total(terms, constant_of(left) + constant_of(right))


def subtract(left: Axis, right: Axis) -> Axis:
    """left - right"""
    return add(left, multiply(-1, right))


def multiply(left: Axis, right: Axis) -> Axis:
    """left * right, multiplied out"""
    terms: dict[Atom, int] = {}

    def collect(atom: Atom | None, coefficient: int) -> None:
        if atom is not None:
            terms[atom] = terms.get(atom, 0) + coefficient

    for a, m in terms_of(left):
        for b, n in terms_of(right):
            collect(product(a, b), m * n)
        collect(a, m * constant_of(right))
    for b, n in terms_of(right):
        collect(b, n * constant_of(left))
    return total(terms, constant_of(left) * constant_of(right))


def divide(left: Axis, right: Axis) -> Axis:
    """left // right; what divides out is taken out.

    Raises ZeroDivisionError for a divisor that is 0.
    """
    if not isinstance(right, int):
        if left == right:
            return 1
        return total({Quotient(as_sum(left), right): 1}, 0)
    if isinstance(left, int):
        return left // right
    if right == 1:
        return left
    whole = {atom: c // right for atom, c in left.terms if c % right == 0}
    rest = {atom: c for atom, c in left.terms if c % right != 0}
    quotient, remainder = divmod(left.constant, right)
    if not rest:
        return total(whole, quotient)
    inner = Quotient(as_sum(total(rest, remainder)), right)
    return add(total(whole, quotient), total({inner: 1}, 0))


def substitute(axis: Axis, values: Mapping[str, Axis]) -> Axis:
    """The expression with variables replaced, in normal form again."""
    if isinstance(axis, int):
        return axis
    result: Axis = axis.constant
    for atom, coefficient in axis.terms:
        result = add(result, multiply(coefficient, substitute_atom(atom, values)))
    return result


def substitute_atom(atom: Atom, values: Mapping[str, Axis]) -> Axis:
    """The same for one atom."""
    match atom:
        case Name(name):
            return values.get(name, variable(name))
        case Product(factors):
            result: Axis = 1
            for factor in factors:
                result = multiply(result, substitute_atom(factor, values))
            return result
        case Quotient(dividend, divisor):
            return divide(substitute(dividend, values), substitute(divisor, values))


def names(axis: Axis) -> tuple[str, ...]:
    """The variables of an expression, in order of appearance."""
    found: dict[str, None] = {}

    def visit(atom: Atom) -> None:
        match atom:
            case Name(name):
                found[name] = None
            case Product(factors):
                for factor in factors:
                    visit(factor)
            case Quotient(dividend, divisor):
                found.update(dict.fromkeys((*names(dividend), *names(divisor))))

    for atom, _ in terms_of(axis):
        visit(atom)
    return tuple(found)


def text(axis: Axis) -> str:
    """The expression as a signature writes it."""
    if isinstance(axis, int):
        return str(axis)
    parts = [(c < 0, atom_text(atom, abs(c))) for atom, c in axis.terms]
    if axis.constant:
        parts.append((axis.constant < 0, str(abs(axis.constant))))
    parts.sort(key=lambda part: part[0])  # a sum begins with what is added, if anything is
    first = ("0 - " if parts[0][0] else "") + parts[0][1]
    return first + "".join(f" {'-' if negative else '+'} {body}" for negative, body in parts[1:])


def atom_text(atom: Atom, coefficient: int = 1) -> str:
    """An atom, with its coefficient in front."""
    front = "" if coefficient == 1 else f"{coefficient}*"
    match atom:
        case Name(name):
            return front + name
        case Product(factors):
            return front + "*".join(factor_text(factor) for factor in factors)
        case Quotient(dividend, divisor):
            body = f"{operand_text(dividend)}//{operand_text(divisor)}"
            return f"{front}({body})" if front else body


def factor_text(atom: Atom) -> str:
    """An atom inside a product."""
    return f"({atom_text(atom)})" if isinstance(atom, Quotient) else atom_text(atom)


def operand_text(axis: Axis) -> str:
    """An expression beside `//`."""
    simple = isinstance(axis, int) or bare_name(axis) is not None
    return text(axis) if simple else f"({text(axis)})"


def terms_of(axis: Axis) -> tuple[tuple[Atom, int], ...]:
    """The terms of a sum; a number has none."""
    return () if isinstance(axis, int) else axis.terms


def constant_of(axis: Axis) -> int:
    """The constant of a sum; a number is its own."""
    return axis if isinstance(axis, int) else axis.constant


def as_sum(axis: Axis) -> Sum:
    """A number as a sum without terms."""
    return Sum((), axis) if isinstance(axis, int) else axis


def total(terms: Mapping[Atom, int], constant: int) -> Axis:
    """The normal form of a sum: sorted, without zero terms; a number if no term is left."""
    kept = sorted(((a, c) for a, c in terms.items() if c), key=lambda term: atom_text(term[0]))
    return Sum(tuple(kept), constant) if kept else constant


def product(left: Atom, right: Atom) -> Product:
    """The product of two atoms."""
    factors = [f for a in (left, right) for f in (a.factors if isinstance(a, Product) else (a,))]
    return Product(tuple(sorted(factors, key=atom_text)))
