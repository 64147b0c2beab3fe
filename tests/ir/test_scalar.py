"""Scalar expressions: equal ones are one object, and each part is looked at once."""

from __future__ import annotations

import copy
import math
import pickle

import numpy as np
import pytest

from noeira.codegen.expressions import Lowering
from noeira.errors import VerifyError
from noeira.ir.formula import formula
from noeira.ir.scalar import (
    Expr,
    call,
    constants,
    derivative,
    keys,
    lift,
    operation_count,
    parts,
    reckoned,
    select,
    square,
    substitute,
    var,
    variables,
)
from noeira.ir.scalar_numpy import evaluate

x, z = var("x"), var("z")


def inverse_root(steps: int) -> Expr:
    """1 / √x by Newton's method from 1, each step of which reads the one before three times."""
    found = lift(1)
    for _ in range(steps):
        found = found * (1.5 - 0.5 * x * found * found)
    return found


def nested(depth: int) -> Expr:
    """x, times 1/2 and plus z, again and again."""
    found = x
    for _ in range(depth):
        found = found * 0.5 + z
    return found


def value(expr: Expr, **values: float) -> float:
    """What an expression is."""
    arrays = {name: np.array(one) for name, one in values.items()}
    return float(evaluate(expr, arrays, "f64", ()))


def test_equal_expressions_are_one_object() -> None:
    assert inverse_root(9) is inverse_root(9) is not inverse_root(8)
    assert lift(0.0) is not lift(-0.0) and lift(math.nan) is lift(math.nan)
    assert math.copysign(1, value(call("min", lift(-0.0), 1) + call("max", -1, lift(-0.0)))) == -1
    assert pickle.loads(pickle.dumps(nested(3))) is copy.deepcopy(nested(3)) is nested(3)


def test_parts_that_are_read_often_are_looked_at_once() -> None:
    root = inverse_root(40)
    assert value(root, x=0.7) == pytest.approx(0.7**-0.5, rel=1e-12)
    slope = derivative(root, "x")
    assert value(slope, x=0.7) == pytest.approx(-0.5 * 0.7**-1.5, rel=1e-9)
    assert value(derivative(slope, "x"), x=0.7) == pytest.approx(0.75 * 0.7**-2.5, rel=1e-9)
    assert variables(root) == variables(slope) == reckoned(slope) == ("x",)
    assert constants(root) == (1.5, 0.5) and keys(root) == ()
    assert operation_count(root) == len(parts(root)) - 3 == 40 * 4 - 2
    assert (
        substitute(root, {"x": z}) is not root is substitute(substitute(root, {"x": z}), {"z": x})
    )


def test_parts_that_are_read_often_have_a_line_each() -> None:
    found = x
    for _ in range(40):
        found = square(found)
    lowering = Lowering("f32", {}, [])
    lowering.assign("r0", found + z, {"x": "x0", "z": "x1"})
    assert lowering.lines[0] == "const f32v t0 = x0 * x0;" and len(lowering.lines) == 40
    assert lowering.lines[-1] == "const f32v r0 = (t38 * t38) + x1;"
    made = formula({"y": found + z}, {"z"})
    assert made.numbers == {"number 0": found}


def test_expressions_may_be_deep() -> None:
    deep = nested(2000)
    assert value(deep, x=1.0, z=1.0) == pytest.approx(2)
    assert variables(deep) == ("x", "z") and operation_count(deep) == 4000
    assert value(derivative(deep, "z"), x=1.0, z=1.0) == pytest.approx(2)
    assert substitute(deep, {}) is deep
    lowering = Lowering("f32", {}, [])
    lowering.assign("r0", nested(400), {"x": "x0", "z": "x1"})
    assert lowering.lines[0].count("*") == 400


def test_variables_go_by_their_first_appearance() -> None:
    drawn = call("uniform", var("seed"), var("tick"), var("stream"))
    mixed = select(call("ge", drawn, 0.25), z * x, x + z) + var("seed")
    assert variables(mixed) == ("seed", "tick", "stream", "z", "x")
    assert keys(mixed) == ("seed", "tick", "stream") and reckoned(mixed) == ("z", "x", "seed")
    assert constants(mixed) == (0.25,)
    with pytest.raises(VerifyError, match="takes operands as they are"):
        keys(call("uniform", x + 1, x, x))


def test_an_expression_shows_its_two_uppermost_levels() -> None:
    x = var("x")
    shared = x
    for _ in range(60):
        shared = shared * shared
    assert repr(x * 2.0 + 1.0) == "+(*(…), 1.0)"
    assert repr(shared) == "*(*(…), *(…))" and repr(call("exp", x)) == "exp(x)"
