"""Scalar expressions: one definition of an element-wise function gives its C, its NumPy and its
derivatives.

Expressions are trees of arithmetic over named variables. Equal ones are one object, and whatever
walks through them looks at each part once, however often it is read. Smart constructors drop
additions of 0 and products with 0 and 1, so that derivatives come out readable. Comparisons are
only ever the condition of a `select`.

`uniform(seed, tick, stream)` is the one function that differs from element to element by itself: a
random number in [0, 1), see `noeira.ir.random.uniform24`. Its arguments are variables that name
whole numbers, i64[]; any other whole number becomes a float when it is read.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import FunctionType
from typing import Any, NoReturn

from noeira.errors import VerifyError


@dataclass(frozen=True, eq=False, init=False, repr=False)
class Expr:
    """A node of the tree. Leaves: `var` (its name) and `const` (its value)."""

    op: str
    args: tuple[Any, ...]

    def __new__(cls, op: str, args: tuple[Any, ...]) -> Expr:
        made = super().__new__(cls)
        made.__dict__.update(op=op, args=args)
        # As numbers, 0.0 and -0.0 are equal, and a NaN is not.
        return EXPRESSIONS.setdefault((op, repr(args) if op == "const" else args), made)

    def __getnewargs__(self) -> tuple[str, tuple[Any, ...]]:
        return self.op, self.args

    def __repr__(self) -> str:
        # The whole would name shared parts again and again.
        if not self.operands:
            return str(self.args[0])
        inner = (repr(arg) if not arg.operands else f"{arg.op}(…)" for arg in self.operands)
        return f"{self.op}({', '.join(inner)})"

    @property
    def operands(self) -> tuple[Expr, ...]:
        """What an operation is done on; nothing of a leaf."""
        return () if self.op in ("var", "const") else self.args

    def __add__(self, other: Expr | float) -> Expr:
        return add(self, lift(other))

    def __radd__(self, other: float) -> Expr:
        return add(lift(other), self)

    def __sub__(self, other: Expr | float) -> Expr:
        return subtract(self, lift(other))

    def __rsub__(self, other: float) -> Expr:
        return subtract(lift(other), self)

    def __mul__(self, other: Expr | float) -> Expr:
        return multiply(self, lift(other))

    def __rmul__(self, other: float) -> Expr:
        return multiply(lift(other), self)

    def __truediv__(self, other: Expr | float) -> Expr:
        return Expr("/", (self, lift(other)))

    def __rtruediv__(self, other: float) -> Expr:
        return Expr("/", (lift(other), self))

    def __neg__(self) -> Expr:
        return lift(-self.args[0]) if self.op == "const" else Expr("neg", (self,))

    # What would look right and is not: each says what to write.
    def __pow__(self, other: Any) -> NoReturn:
        instead = "square(x), or x * x" if other == 2 else f'call("pow", x, {other!r})'
        raise VerifyError(f"x**{other!r}: write {instead}")

    def __rpow__(self, other: Any) -> NoReturn:
        raise VerifyError(f'{other!r}**x: write call("pow", {other!r}, x)')

    def __abs__(self) -> NoReturn:
        raise VerifyError('abs(x): write call("abs", x)')

    def __lt__(self, other: Any) -> NoReturn:
        compared("<", "lt")

    def __le__(self, other: Any) -> NoReturn:
        compared("<=", "le")

    def __gt__(self, other: Any) -> NoReturn:
        compared(">", "gt")

    def __ge__(self, other: Any) -> NoReturn:
        compared(">=", "ge")

    def __float__(self) -> float:
        raise VerifyError(
            'an expression is no number: write call("exp", x), not math.exp(x) or float(x)'
        )

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Expr:
        """Arithmetic with a scalar of NumPy; every other function of NumPy is refused."""
        name: str = ufunc.__name__
        if name in UFUNC_OPERATORS and method == "__call__" and not options:
            a, b = map(lift, inputs)
            return UFUNC_OPERATORS[name](a, b)
        if name in ("power", "float_power", "square"):
            raise VerifyError(f"np.{name}(x): write square(x), or products such as x * x * x")
        own = UFUNC_NAMES.get(name, name)
        if own in COMPARISONS.values():
            compared(f"np.{name}", next(key for key in COMPARISONS if COMPARISONS[key] == own))
        raise VerifyError(f"np.{name}(x): {advice(own, len(inputs))}")


# Every expression there is.
EXPRESSIONS: dict[tuple[str, Any], Expr] = {}


def lift(value: Expr | float) -> Expr:
    """A number as an expression. Raises VerifyError for anything else."""
    if isinstance(value, Expr):
        return value
    try:
        return Expr("const", (float(value),))
    except (TypeError, ValueError):
        raise VerifyError(f"{value!r} is neither an expression nor a number") from None


def compared(sign: str, name: str) -> NoReturn:
    """Raises the error for a comparison that is written as in Python."""
    raise VerifyError(
        f'x {sign} 0: write call("{name}", x, 0), as the condition of a select(…, yes, no)'
    )


def advice(name: str, count: int) -> str:
    """What to write for a function of that name."""
    if name not in FUNCTIONS:
        return f"there is no scalar function {name!r}; there are {', '.join(FUNCTIONS)}"
    return f'write call("{name}", {", ".join("xyz"[:count])})'


def var(name: str) -> Expr:
    """A variable."""
    return Expr("var", (name,))


def call(name: str, *args: Expr | float) -> Expr:
    """A function or comparison by name. Raises VerifyError if there is none of that name, or if it
    takes another number of arguments.
    """
    if name not in FUNCTIONS and name not in COMPARISONS:
        known = ", ".join((*FUNCTIONS, *COMPARISONS))
        raise VerifyError(f"there is no scalar function {name!r}; there are {known}")
    wanted = 2 if name in COMPARISONS else FUNCTIONS[name].partials.__code__.co_argcount - 1
    if len(args) != wanted:
        raise VerifyError(f"{name} takes {wanted} argument{'s'[: wanted - 1]}, got {len(args)}")
    return Expr(name, tuple(map(lift, args)))


def is_const(expr: Expr, value: float) -> bool:
    """Whether the expression is that literal."""
    return expr.op == "const" and expr.args[0] == value


def add(a: Expr, b: Expr) -> Expr:
    """a + b."""
    if is_const(a, 0):
        return b
    if is_const(b, 0):
        return a
    return Expr("-", (a, b.args[0])) if b.op == "neg" else Expr("+", (a, b))


def subtract(a: Expr, b: Expr) -> Expr:
    """a - b."""
    if is_const(b, 0):
        return a
    if is_const(a, 0):
        return -b
    return Expr("-", (a, b))


def multiply(a: Expr, b: Expr) -> Expr:
    """a * b."""
    if a.op == "const" and b.op == "const":
        return lift(a.args[0] * b.args[0])
    for one, other in ((a, b), (b, a)):
        if is_const(one, 0):
            return one
        if is_const(one, 1):
            return other
        if is_const(one, -1):
            return -other
    return Expr("*", (a, b))


def select(condition: Expr, yes: Expr | float, no: Expr | float) -> Expr:
    """`yes` where the comparison holds, else `no` (also where an operand is NaN).

    Raises VerifyError if the condition is no comparison.
    """
    if not isinstance(condition, Expr) or condition.op not in COMPARISONS:
        raise VerifyError('the condition of a select is a comparison, such as call("gt", x, 0)')
    yes, no = lift(yes), lift(no)
    return yes if yes == no else Expr("select", (condition, yes, no))


def square(a: Expr) -> Expr:
    """a * a."""
    return a * a


@dataclass(frozen=True)
class Function:
    """partials: its partial derivatives, given its own value y and its arguments; cheap: whether it
    is an instruction, or a few.
    """

    partials: FunctionType
    cheap: bool = False


# One row a function.
FUNCTIONS: dict[str, Function] = {
    "exp": Function(lambda y, a: (y,)),
    "expm1": Function(lambda y, a: (call("exp", a),)),
    "log": Function(lambda y, a: (1.0 / a,)),
    "log1p": Function(lambda y, a: (1.0 / (a + 1.0),)),
    "tanh": Function(lambda y, a: (1.0 - square(y),)),
    "sigmoid": Function(lambda y, a: (y * (1.0 - y),)),
    "softplus": Function(lambda y, a: (call("sigmoid", a),)),
    "erf": Function(lambda y, a: (call("exp", -square(a)) * (2.0 / math.sqrt(math.pi)),)),
    "normal_cdf": Function(lambda y, a: (call("normal_pdf", a),)),
    "normal_pdf": Function(lambda y, a: (-(a * y),)),
    "sin": Function(lambda y, a: (call("cos", a),)),
    "cos": Function(lambda y, a: (-call("sin", a),)),
    "sqrt": Function(lambda y, a: (0.5 / y,)),
    "pow": Function(lambda y, a, b: (b * call("pow", a, b - 1.0), y * call("log", a))),
    "abs": Function(lambda y, a: (call("sign", a),), cheap=True),
    "sign": Function(lambda y, a: (lift(0),)),
    "floor": Function(lambda y, a: (lift(0),), cheap=True),
    "max": Function(
        lambda y, a, b: (select(call("ge", a, b), 1, 0), select(call("ge", a, b), 0, 1)), cheap=True
    ),
    "min": Function(
        lambda y, a, b: (select(call("le", a, b), 1, 0), select(call("le", a, b), 0, 1)), cheap=True
    ),
    "uniform": Function(lambda y, seed, tick, stream: (lift(0), lift(0), lift(0))),
}
# Partial derivatives likewise.
ARITHMETIC: dict[str, Callable[..., tuple[Expr, ...]]] = {
    "+": lambda y, a, b: (lift(1), lift(1)),
    "-": lambda y, a, b: (lift(1), lift(-1)),
    "*": lambda y, a, b: (b, a),
    "/": lambda y, a, b: (1.0 / b, -(y / b)),
    "neg": lambda y, a: (lift(-1),),
}
COMPARISONS = {
    "lt": "less",
    "le": "less_equal",
    "gt": "greater",
    "ge": "greater_equal",
    "eq": "equal",
}
UFUNC_OPERATORS: dict[str, Callable[[Expr, Expr], Expr]] = {
    "add": add,
    "subtract": subtract,
    "multiply": multiply,
    "divide": lambda a, b: a / b,
}
UFUNC_NAMES = {"absolute": "abs", "fabs": "abs", "maximum": "max", "minimum": "min"}


def parts(expr: Expr, unread: str = "") -> tuple[Expr, ...]:
    """The expression and all that it is made of, each once, after its own arguments; what is below
    a function called `unread` is left out.
    """
    found, path = dict[Expr, None](), [expr]
    while path:
        below = () if path[-1].op == unread else path[-1].operands
        ahead = next((one for one in below if one not in found), None)
        if ahead is None:
            found[path.pop()] = None
        else:
            path.append(ahead)
    return tuple(found)


def variables(expr: Expr, unread: str = "") -> tuple[str, ...]:
    """The variables of an expression, each once, in order of first appearance."""
    return tuple(part.args[0] for part in parts(expr, unread) if part.op == "var")


def constants(expr: Expr) -> tuple[float, ...]:
    """The numbers of an expression, each once."""
    return tuple(part.args[0] for part in parts(expr) if part.op == "const")


def keys(expr: Expr) -> tuple[str, ...]:
    """The variables that random numbers follow from, each once. Raises VerifyError for an argument
    of `uniform` that is no variable.
    """
    args = [arg for part in parts(expr) if part.op == "uniform" for arg in part.args]
    if any(arg.op != "var" for arg in args):
        raise VerifyError("uniform(seed, tick, stream) takes operands as they are")
    return tuple(dict.fromkeys(arg.args[0] for arg in args))


def reckoned(expr: Expr) -> tuple[str, ...]:
    """The variables that arithmetic is done on, each once: not those that random numbers follow
    from.
    """
    return variables(expr, unread="uniform")


def substitute(expr: Expr, replacements: Mapping[str, Expr]) -> Expr:
    """The expression with variables replaced."""
    made = dict[Expr, Expr]()
    for part in parts(expr):
        args = tuple(made[arg] for arg in part.operands)
        # No literal has the name of a variable.
        made[part] = Expr(part.op, args) if args else replacements.get(part.args[0], part)
    return made[expr]


def derivative(expr: Expr, name: str) -> Expr:
    """The derivative of an expression with respect to a variable."""
    slopes = dict[Expr, Expr]()
    for part in parts(expr):
        if part.op in ("var", "const"):
            slopes[part] = lift(float(part == var(name)))
        elif part.op == "select":
            condition, yes, no = part.args
            slopes[part] = select(condition, slopes[yes], slopes[no])
        elif part.op not in COMPARISONS:
            partials = ARITHMETIC.get(part.op) or FUNCTIONS[part.op].partials
            pairs = zip(partials(part, *part.args), part.args, strict=True)
            slopes[part] = sum((partial * slopes[arg] for partial, arg in pairs), lift(0))
    return slopes[expr]


def operation_count(expr: Expr) -> int:
    """Number of operations of an expression, each distinct subexpression counted once."""
    return sum(part.op not in ("var", "const") for part in parts(expr))
