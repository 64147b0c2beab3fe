"""From scalar expressions to C text of one `double`: what a kernel reckons once for all elements. C
and CUDA have it alike.
"""

from __future__ import annotations

from noeira.codegen.elements import literal
from noeira.codegen.expressions import INFIX, bare
from noeira.errors import VerifyError
from noeira.ir.scalar import Expr

# What the C library and the device's have under the same names.
ALIKE = ("exp", "expm1", "log", "log1p", "tanh", "erf", "sin", "cos", "sqrt", "pow", "floor")
FUNCTIONS = {name: name for name in ALIKE} | {"abs": "fabs"}
COMPARED = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "=="}
# NaN if either is NaN, as everywhere: the comparison is false for a NaN on the right, which is then
# taken. fmax and fmin of C would give the other.
LIMITS = {"max": ">", "min": "<"}


def number_text(expr: Expr, owner: str) -> str:
    """The C text of an expression whose variables are doubles of the same names.

    Raises VerifyError, in the name of its owner, for a function that there is not.
    """

    def text(e: Expr) -> str:
        if e.op == "var":
            return e.args[0]
        if e.op == "const":
            return literal(e.args[0], "f64")
        args = [text(arg) for arg in e.args]
        if e.op in INFIX:
            return f"({args[0]} {e.op} {args[1]})"
        if e.op in COMPARED:
            return f"{args[0]} {COMPARED[e.op]} {args[1]}"
        if e.op == "neg":
            return f"(-{args[0]})"
        if e.op == "select":
            return f"({args[0]} ? {args[1]} : {args[2]})"
        if e.op in LIMITS:
            a, b = args
            return f"({a} {LIMITS[e.op]} {b} || {a} != {a} ? {a} : {b})"
        if e.op not in FUNCTIONS:
            known = ", ".join((*FUNCTIONS, *LIMITS, "select"))
            raise VerifyError(
                f"{owner}: of what all elements have in common there is no {e.op}; "
                f"there are {known}"
            )
        return f"{FUNCTIONS[e.op]}({', '.join(map(bare, args))})"

    return bare(text(expr))


def is_light(expr: Expr) -> bool:
    """Whether a number is so little work that every thread may do it: no function, no division."""
    if expr.op in ("var", "const"):
        return True
    return expr.op not in FUNCTIONS and expr.op != "/" and all(map(is_light, expr.args))
