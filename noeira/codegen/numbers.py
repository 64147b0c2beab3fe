"""From scalar expressions to C text of one `double`: what a kernel reckons once for all elements. C
and CUDA have it alike.
"""

from __future__ import annotations

from noeira.codegen.expressions import INFIX, bare, c_literal
from noeira.errors import VerifyError
from noeira.ir.scalar import Expr

# What the C library and the device's have under the same names.
FUNCTIONS = {
    name: name for name in ("exp", "expm1", "log", "log1p", "tanh", "erf", "sqrt", "pow")
} | {"abs": "fabs"}
COMPARED = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "=="}


def number_text(expr: Expr) -> str:
    """The C text of an expression whose variables are doubles of the same names.

    Raises VerifyError for a function that there is not.
    """
    return bare(text(expr))


def text(expr: Expr) -> str:
    """The same in parentheses, if it needs them."""
    if expr.op == "var":
        return expr.args[0]
    if expr.op == "const":
        return c_literal(expr.args[0], "f64")
    args = [text(arg) for arg in expr.args]
    if expr.op in INFIX:
        return f"({args[0]} {expr.op} {args[1]})"
    if expr.op in COMPARED:
        return f"{args[0]} {COMPARED[expr.op]} {args[1]}"
    if expr.op == "neg":
        return f"(-{args[0]})"
    if expr.op == "select":
        return f"({args[0]} ? {args[1]} : {args[2]})"
    if expr.op not in FUNCTIONS:
        known = ", ".join(FUNCTIONS)
        raise VerifyError(
            f"a number that all elements have in common can be no {expr.op} of others: "
            f"there are {known} and select"
        )
    return f"{FUNCTIONS[expr.op]}({', '.join(map(bare, args))})"


def is_light(expr: Expr) -> bool:
    """Whether a number is so little work that every thread may do it: no function, no division."""
    if expr.op in ("var", "const"):
        return True
    return expr.op not in FUNCTIONS and expr.op != "/" and all(map(is_light, expr.args))
