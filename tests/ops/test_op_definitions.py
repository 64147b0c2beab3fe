"""What is said to a definition of an op that is not right."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
import pytest

import noeira
from noeira.ir.attributes import filled
from noeira.ir.builder import Builder
from noeira.ir.gradients import gradients
from noeira.ir.graph import Attrs, Node, Origin, Value
from noeira.ir.interpret import interpret
from noeira.ir.op import OPS, Op
from noeira.ir.ops.elementwise import Elementwise
from noeira.ir.scalar import Expr, call, select, var
from noeira.ir.types import TensorType


def test_a_taken_name_is_refused() -> None:
    with pytest.raises(noeira.VerifyError, match="there is an op 'relu' already, ReLU of "):

        class Mine(Elementwise):
            name = "relu"


def test_what_an_expression_may_hold() -> None:
    with pytest.raises(noeira.VerifyError, match="there is no scalar function 'cosine'; there are"):
        call("cosine", var("x"))

    class Stray(Elementwise):
        name = "stray"

        def expression(self, attrs: object) -> object:  # type: ignore[override]
            return var("x") + var("z")

    builder = Builder("test")
    x = builder.input("x", TensorType("f32", (3,)))
    with pytest.raises(noeira.VerifyError, match="uses z, which is no operand; its operands are x"):
        builder.emit("stray", x)
    OPS.pop("stray")


def test_an_attribute_that_does_not_exist() -> None:
    builder = Builder("test")
    x = builder.input("x", TensorType("f32", (3,)))
    with pytest.raises(
        noeira.VerifyError, match="leaky_relu has no attribute 'slop'; it has slope"
    ):
        builder.emit("leaky_relu", x, slop=0.1)


@pytest.mark.parametrize(
    ("attrs", "said"),
    [
        ({"factor": "a"}, 'scale: factor must be a number, not "a"'),
        ({"factor": True}, "scale: factor must be a number, not true"),
        ({"factor": None}, "scale: factor must be a number, not None"),
    ],
)
def test_an_attribute_of_another_type(attrs: dict[str, Any], said: str) -> None:
    builder = Builder("test")
    x = builder.input("x", TensorType("f32", (3,)))
    with pytest.raises(noeira.VerifyError, match=re.escape(said)):
        builder.emit("scale", x, **attrs)


def test_attributes_are_made_fit() -> None:
    builder = Builder("test")
    x = builder.input("x", TensorType("f32", (6,)))
    builder.emit("scale", x, factor=2)
    builder.emit("scale", x, factor=np.float64(2))
    assert repr(builder.nodes[0].attrs) == repr(builder.nodes[1].attrs) == "FactorAttrs(factor=2.0)"
    assert builder.emit("reshape", x, shape=[np.int64(2), 3]).type.shape == (2, 3)


@dataclass(frozen=True)
class Bare(Attrs):
    """An attribute without a default, and one of a type that no text can say."""

    k: int


@dataclass(frozen=True)
class Loose(Attrs):
    k: int | None = None


def test_attributes_are_declared_right() -> None:
    with pytest.raises(noeira.VerifyError, match="own needs the attribute 'k'"):
        filled("own", Bare, {})
    with pytest.raises(
        noeira.VerifyError, match=r"Loose: k is declared as int \| None; attributes"
    ):
        filled("own", Loose, {"k": 1})


x = var("x")


INSTEAD: dict[str, tuple[Callable[[], Any], str]] = {
    "np.exp": (lambda: np.exp(x), 'np.exp(x): write call("exp", x)'),  # type: ignore[call-overload]
    "np.maximum": (lambda: np.maximum(x, 0), 'write call("max", x, y)'),  # type: ignore[call-overload]
    "np.tan": (lambda: np.tan(x), "there is no scalar function 'tan'; there are exp"),  # type: ignore[call-overload]
    "np.greater": (lambda: np.greater(x, 0), 'write call("gt", x, 0)'),  # type: ignore[call-overload]
    "math.exp": (lambda: math.exp(x), 'write call("exp", x), not math.exp(x)'),  # type: ignore[arg-type]
    "square": (lambda: x**2, "write square(x), or x * x"),
    "power": (lambda: x**0.5, 'x**0.5: write call("pow", x, 0.5)'),
    "power of a number": (lambda: 0.5**x, '0.5**x: write call("pow", 0.5, x)'),
    "abs": (lambda: abs(x), 'write call("abs", x)'),
    "greater": (lambda: x > 0, 'write call("gt", x, 0), as the condition of a select('),
    "less": (lambda: x < 0, 'write call("lt", x, 0)'),
    "max": (lambda: max(x, 0), 'write call("lt", x, 0)'),  # type: ignore[type-var]
    "equal": (lambda: select(x == 0, 1, 0), "the condition of a select is a comparison"),  # type: ignore[arg-type]
    "text": (lambda: x + "a", "'a' is neither an expression nor a number"),  # type: ignore[operator]
    "two": (lambda: call("exp", x, x), "exp takes 1 argument, got 2"),
    "one": (lambda: call("max", x), "max takes 2 arguments, got 1"),
}


@pytest.mark.parametrize("mistake", INSTEAD)
def test_what_to_write_in_an_expression(mistake: str) -> None:
    write, said = INSTEAD[mistake]
    with pytest.raises(noeira.VerifyError, match=re.escape(said)):
        write()


def test_scalars_of_numpy_are_numbers() -> None:
    assert np.float32(2) * x == 2.0 * x  # type: ignore[operator]
    assert np.float64(3) - x / np.float64(2) == 3.0 - x / 2.0


def made(body: type) -> Op:
    """The op of a class body, which no other test sees."""
    kind: Any = type("Own", (body,), {"name": "own", "__module__": __name__})
    OPS.pop("own")
    return kind()


class Two(Elementwise):
    """An expression that is a number."""

    def expression(self, attrs: Any) -> Any:
        return 2


class WildSlope(Elementwise):
    """A slope that reads what there is not."""

    def expression(self, attrs: Any) -> Expr:
        return var("x")

    def slope(self, attrs: Any, index: int) -> Expr:
        return var("w")


def test_an_expression_is_no_number_and_a_slope_reads_what_there_is() -> None:
    with pytest.raises(
        noeira.VerifyError, match=r"own: its expression must be an expression, not 2: write lift\(2"
    ):
        made(Two).types(Attrs(), [TensorType("f32", (3,))])
    said = (
        "own: its slope in x uses w, which is no operand; its operands are x, and its result is y"
    )
    with pytest.raises(noeira.VerifyError, match=said):
        made(WildSlope).slope_op(0)


MATRIX = TensorType("f32", (4, 3))


class Right(Op):
    """An op that is right, to be changed by those below."""

    operands = ("x",)
    given: Any = None

    def infer(self, attrs: Any, x: TensorType) -> tuple[TensorType, ...]:
        return (x,)

    def reference(self, attrs: Any, x: np.ndarray) -> Any:
        return self.given(x)

    def vjp(self, attrs: Any, back: Any) -> Any:
        return self.given(back, back.cotangent)


def graph_of(given: Callable[..., Any]) -> Builder:
    """One node of the op, which gives what it is told."""
    rule = made(type("Told", (Right,), {"given": staticmethod(given)}))
    builder = Builder("test")
    x = builder.input("x", MATRIX)
    y = Value("y", MATRIX)
    builder.names.add("y")
    builder.nodes.append(Node(rule, (x,), (y,), Attrs(), Origin("net", "", "trace")))
    return builder


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (lambda b, d: d, "vjp of own must give a dictionary, the cotangent of each operand"),
        (lambda b, d: (d, None), "vjp of own gave 2 cotangents for 1 inputs"),
        (lambda b, d: {"y": d}, "vjp of own gave a cotangent for 'y'; the node has x"),
        (lambda b, d: {"x": b.emit("sum", d)}, "vjp of own gave f32[] for x, which is f32[4, 3]"),
        (lambda b, d: {"x": 1.0}, "vjp of own gave 1.0 for x: it must be what back.emit gave"),
        (lambda b, d: {"x": b.emit("scale", None)}, "vjp of own: operand 0 of scale is None"),
        (lambda b, d: {"x": d} if b.wants("y") else {}, "own has no operand 'y'; it has x"),
    ],
)
def test_what_a_vjp_gives(given: Callable[..., Any], said: str) -> None:
    builder = graph_of(given)
    seed = builder.input("seed", MATRIX)
    with pytest.raises(noeira.VerifyError, match=re.escape(said)):
        gradients(builder, {"y": seed}, [builder.inputs[0].value], "vjp")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (lambda x: x, "reference of own must give a tuple of 1 arrays, not a ndarray"),
        (lambda x: (x, x), "reference of own must give a tuple of 1 arrays, not 2"),
        (lambda x: (x[0],), "own: infer says f32[4, 3], but reference gave f32[3]"),
        (lambda x: (x * 1j,), "own: infer says f32[4, 3], but reference gave complex64[4, 3]"),
        (lambda x: (x.astype("f8"),), "infer says f32[4, 3], but reference gave f64[4, 3]"),
    ],
)
def test_what_a_reference_gives(given: Callable[..., Any], said: str) -> None:
    with pytest.raises(noeira.VerifyError, match=re.escape(said)):
        interpret(graph_of(given).done([]), {"x": np.ones((4, 3), "f4")})


def test_a_vjp_asks_which_cotangents_there_are() -> None:
    def vjp(self: Any, attrs: Any, back: Any) -> Any:
        return {"x": back.emit("add", *back.cotangents)}

    rule = made(
        type(
            "Two",
            (Right,),
            {"results": ("", "z"), "infer": lambda self, attrs, x: (x, x), "vjp": vjp},
        )
    )
    builder = Builder("test")
    x, seed = builder.input("x", MATRIX), builder.input("seed", MATRIX)
    outputs = Value("y", MATRIX), Value("y.z", MATRIX)
    builder.nodes.append(Node(rule, (x,), outputs, Attrs(), Origin("net", "", "trace")))
    said = "vjp of own: operand 1 of add is None; nothing flows back into z, whose cotangent is"
    with pytest.raises(noeira.VerifyError, match=said):
        gradients(builder, {"y": seed}, [x], "vjp")


class Undecorated(Attrs):
    k: int = 1


@dataclass
class Thawed:
    k: int = 1


@dataclass(frozen=True, slots=True)
class Slotted(Attrs):
    k: int = 1


@dataclass(frozen=True)
class Keyword(Attrs):
    _: KW_ONLY
    k: int = 1


def test_attributes_may_be_given_by_name_only() -> None:
    assert made(type("Body", (Op,), {"Attrs": Keyword})).Attrs(k=2).k == 2  # type: ignore[call-arg]


def without_attrs(self: Any, x: Any) -> Any:
    return (x,)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"infer": without_attrs}, "infer of own must take attrs first: def infer(self, attrs, "),
        ({"reference": without_attrs}, "reference of own must take attrs first"),
        (
            {"kind": "rows"},
            "own: there is no kind 'rows'; there are map, contraction, window, column, row",
        ),
        ({"kind": "map"}, "own: an op of kind 'map' derives from Elementwise"),
        (
            {"name": "my op"},
            "Own: the name of an op is a word of letters, digits and _, not 'my op'",
        ),
        ({"name": "a.b"}, "Own: the name of an op is a word of letters, digits and _, not 'a.b'"),
        ({"takes": ("head",)}, "takes must be a set, such as frozenset({'head'}), not ('head',)"),
        ({"takes": "head"}, "own: takes must be a set, such as frozenset({'head'}), not 'head'"),
        ({"results": ()}, "own: every op has a result: results = ('',) is one with the name of"),
        ({"operands": "x"}, "own: operands must be a tuple of names, such as ('x',), not 'x'"),
        ({"operands": ["x"]}, "own: operands must be a tuple of names, such as ('x',), not ['x']"),
        ({"saved": "y"}, "own: saved must be a tuple of names, such as ('x',), not 'y'"),
        ({"Attrs": Undecorated}, "own: its Attrs, Undecorated, must be a dataclass: write @data"),
        (
            {"Attrs": Thawed},
            "own: its Attrs, Thawed, must be frozen: write @dataclass(frozen=True)",
        ),
        ({"Attrs": type("Plain", (), {})}, "own: its Attrs, Plain, must be a dataclass: write @"),
        ({"Attrs": Slotted}, "own: its Attrs, Slotted, must have no slots"),
        ({"Attrs": Bare(1)}, "own: Attrs must be a class, not Bare(k=1)"),
    ],
)
def test_what_a_definition_must_be(body: dict[str, Any], said: str) -> None:
    with pytest.raises(noeira.VerifyError, match=re.escape(said)):
        type("Own", (Right,), {"name": "own", **body})
    assert "own" not in OPS


@pytest.mark.parametrize("dtype", ["i32", "bool", "f31"])
def test_a_result_of_an_expression_is_a_float(dtype: str) -> None:
    body = {
        "result_dtype": lambda self, attrs, given: dtype,
        "expression": lambda self, attrs: x,
    }
    rule = made(type("Whole", (Elementwise,), body))
    said = f"own: its result_dtype is '{dtype}', which is none of f32, f64, bf16, f16"
    with pytest.raises(noeira.DtypeError, match=said):
        rule.types(Attrs(), [MATRIX])


def test_an_operand_is_not_called_as_the_result_is() -> None:
    with pytest.raises(noeira.VerifyError, match="own: operand y has the name of the result"):
        type("Own", (Elementwise,), {"name": "own", "operands": ("x", "y")})
    assert "own" not in OPS


def test_infer_gives_a_type_for_each_result() -> None:
    rule = made(type("Few", (Right,), {"results": ("", "mean")}))
    with pytest.raises(noeira.VerifyError, match="own gives 1 types for its results, y, mean"):
        rule.types(Attrs(), [MATRIX])


def test_infer_gives_a_tuple() -> None:
    rule = made(type("Loose", (Right,), {"infer": lambda self, attrs, x: x}))
    said = "infer of own must give a tuple of types, not f32[4, 3]"
    with pytest.raises(noeira.VerifyError, match=re.escape(said)):
        rule.types(Attrs(), [MATRIX])


@dataclass(frozen=True)
class PowerAttrs(Attrs):
    """degree: of the power."""

    degree: int = 1


def test_what_a_slope_reads_follows_from_flags_alone() -> None:
    def expression(self: Any, attrs: PowerAttrs) -> Expr:
        return math.prod([x] * attrs.degree, start=x / 2)

    rule = made(type("Power", (Elementwise,), {"Attrs": PowerAttrs, "expression": expression}))
    slope = rule.slope_op(0)
    assert slope is not None and slope.operands == ("d", "a.x")

    def bare(self: Any, attrs: PowerAttrs) -> Expr:
        return x * x if attrs.degree == 2 else x * 3

    rule = made(type("Power", (Elementwise,), {"Attrs": PowerAttrs, "expression": bare}))
    slope = rule.slope_op(0)
    assert slope is not None and slope.operands == ("d",)
    said = "own: its slope in x reads x with degree = 2: what is read may depend on attributes that"
    with pytest.raises(noeira.VerifyError, match=said):
        slope.types(PowerAttrs(2), [MATRIX])


@pytest.mark.parametrize(
    "method", ["given_results", "given_operands", "index_limits", "may_overwrite", "cost"]
)
def test_every_method_takes_the_attributes_first(method: str) -> None:
    with pytest.raises(noeira.VerifyError, match=f"{method} of own must take attrs first"):
        type("Own", (Op,), {"name": "own", method: lambda self, x: ()})
    assert "own" not in OPS
