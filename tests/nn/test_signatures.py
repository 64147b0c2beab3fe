"""Signatures: their text, their expressions, and solving them in either direction."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from usage_types import MLP

from noeira.errors import CompositionError, ShapeError
from noeira.nn import (
    MSE,
    Accuracy,
    CrossEntropy,
    Linear,
    LinearReLU,
    Module,
    Parallel,
    ReLU,
    Repeat,
    Residual,
    Sequential,
    SoftCrossEntropy,
    Tanh,
    size,
)
from noeira.nn.core.expression import substitute, text
from noeira.nn.core.signature import parse_axis, parse_signature


class Convolution(Module):
    """A convolution's shapes, to try signatures on."""

    IC, OC, K = size(), size(), size()
    STRIDE = size(1)
    PADDING = size(0, least=0)
    signature = (
        "(IC, H, W) -> (OC, (H + 2*PADDING - K)//STRIDE + 1, (W + 2*PADDING - K)//STRIDE + 1)"
    )


class Flatten(Module):
    """All axes of an image in one."""

    signature = "(C, H, W) -> (C*H*W)"


class Embedding(Module):
    """Rows of a table."""

    V, D = size(), size()
    signature = "(T: i32 < V) -> (T, D)"


class Split(Module):
    """Two outputs."""

    D = size()
    signature = "(*, 2*D) -> (*, D), (*, D)"


@pytest.mark.parametrize(
    "source",
    [
        "(*, IN) -> (*, OUT)",
        "() -> ()",
        "(*) -> (*)",
        "(T: i32) -> (T, D)",
        "(*, C), (*: i32 < C) -> ()",
        "(*, C), (*: i32 < C) -> (), ()",
        "(: bool) -> (3)",
        "(IC, H, W) -> (OC, H//2, (H - 3)//S + 1)",
        "(A) -> (A*B + 2*C - 1)",
    ],
)
def test_a_signature_reads_back(source: str):
    assert str(parse_signature(source, "Net")) == source


@pytest.mark.parametrize(
    ("source", "message", "column"),
    [
        ("(*, IN -> (*)", "expected ')'", 7),
        ("(IN)", "expected '->'", 4),
        ("(IN) -> (OUT) x", "expected the end", 14),
        ("(IN, *) -> ()", "`*` stands only in front of the other axes", 5),
        ("(in) -> ()", "names of axes are upper-case: IN", 1),
        ("(A: i16) -> ()", "expected a dtype: f32, f64, bf16, f16, i32, i64, u8, bool", 4),
        ("(A: f32 < C) -> ()", "only whole numbers have a limit, not f32", 8),
        ("(A//0) -> ()", "division by 0", 5),
        ("(A $ B) -> ()", "this sign has no meaning here", 3),
        ("(A + ) -> ()", "expected the length of an axis", 5),
        ("A -> B", "expected '('", 0),
        ("", "expected '('", 0),
    ],
)
def test_what_cannot_be_read_is_pointed_at(source: str, message: str, column: int):
    with pytest.raises(CompositionError) as found:
        parse_signature(source, "Net")
    expected = f"the signature of Net: {message}\n\n    {source}\n    {' ' * column}^"
    assert str(found.value) == expected


@pytest.mark.parametrize(
    ("source", "normal"),
    [
        ("(H + 2 - 3)//1 + 1", "H"),
        ("(2*H + 5)//2", "H + 2"),
        ("(4*H + 2*W + 7)//2", "2*H + W + 3"),
        ("(H - 3)//2 + 1", "(H + 1)//2 - 1"),
        ("H*W - W*H + 3", "3"),
        ("(A + B)*(A - B)", "A*A - B*B"),
        ("H//2//3", "(H//2)//3"),
        ("2*(H//2)*W", "2*(H//2)*W"),
        ("2*(H//2)", "2*(H//2)"),
        ("H//H + 7//2", "4"),
        ("1 - H", "1 - H"),
        ("0 - H", "0 - H"),
    ],
)
def test_expressions_have_one_normal_form(source: str, normal: str):
    axis = parse_axis(source, "an axis")
    assert text(axis) == normal
    assert parse_axis(text(axis), "an axis") == axis


expressions = st.recursive(
    st.sampled_from(["A", "B", "C", "1", "2", "3", "5"]),
    lambda inner: st.tuples(inner, st.sampled_from(["+", "-", "*", "//"]), inner).map(
        lambda parts: f"({parts[0]} {parts[1]} {parts[2]})"
    ),
    max_leaves=8,
)


@given(expressions, st.fixed_dictionaries({name: st.integers(1, 9) for name in "ABC"}))
def test_the_normal_form_has_the_value_of_the_expression(source: str, values: dict[str, Any]):
    try:
        wanted = eval(source, dict(values))
        axis = parse_axis(source, "an axis")
        found = substitute(axis, values)
        again = substitute(parse_axis(text(axis), "an axis"), values)
    except (ZeroDivisionError, CompositionError):
        return
    assert found == again == wanted


def test_either_direction():
    assert Linear[3, 4].gives((3,)) == (4,)
    assert Linear[3, 4].gives((7, 2, 3)) == (7, 2, 4)
    assert Linear[3, 4].gives(("*", 3)) == ("*", 4)
    assert Linear[3, 4].gives() == ("*", 4)
    assert Linear[3, 4].takes((7, 4)) == (7, 3)
    assert Linear[3, 4].takes() == ("*", 3)
    assert ReLU.gives((5, 6)) == (5, 6)
    assert ReLU.gives() == ("*",)
    assert ReLU[4].gives(("T", 4)) == ("T", 4)
    assert Split[3].gives((5, 6)) == ((5, 3), (5, 3))
    assert Split[3].takes((5, 3)) == (5, 6)


def test_a_composite_finds_out_what_it_takes():
    assert str(Sequential[ReLU, Linear[4, 3]].shapes()) == "(*, 4) -> (*, 3)"
    assert str(Sequential[ReLU, Tanh].shapes()) == "(*) -> (*)"
    assert str(Residual[ReLU].shapes()) == "(*) -> (*)"
    assert str(Residual[Sequential[LinearReLU[4, 8], Linear[8, 4]]].shapes()) == "(*, 4) -> (*, 4)"
    assert str(Repeat[3, Residual[Linear[4, 4]]].shapes()) == "(*, 4) -> (*, 4)"
    assert str(Parallel[Linear[3, 4], ReLU, Linear[3, 1]].shapes()) == "(*, 3) -> (*, 8)"
    assert str(Parallel[ReLU, Tanh].shapes()) == "(*, W) -> (*, 2*W)"
    assert str(MLP.shapes()) == "(*, 784) -> (*, 10)"


def test_free_axes_stay_free_until_a_shape_is_given():
    half = Convolution.of(3, 8, 3, stride=2, padding=1)
    same = Convolution.of(8, 8, 3, padding=1)
    net = Sequential[half, ReLU, Residual[same], same]
    assert str(net.shapes()) == "(3, H, W) -> (8, (H + 1)//2, (W + 1)//2)"
    assert net.gives((3, 32, 17)) == (8, 16, 9)
    assert net.gives((3, "H", 17)) == (8, "(H + 1)//2", 9)
    assert Sequential[same, same].takes((8, 5, 6)) == (8, 5, 6)


def test_what_only_a_shape_decides_waits_for_it():
    net = Sequential[Convolution[1, 4, 3], Flatten, Linear[4 * 26 * 26, 10]]
    assert net.gives((1, 28, 28)) == (10,)
    assert "where" in str(net.shapes())
    with pytest.raises(CompositionError) as found:
        net.gives((1, 32, 32))
    assert str(found.value) == (
        "layers 1 and 2 of Sequential, given (1, 32, 32), do not fit\n\n"
        "    Sequential[Convolution[1, 4, 3], Flatten, Linear[2704, 10]]\n"
        "                                     ~~~~~~~  ~~~~~~~~~~~~~~~~\n"
        "                                     |        takes (*, 2704)\n"
        "                                     gives (3600)\n\n"
        "  Change Linear[2704, 10] to Linear[3600, 10]."
    )


def test_a_shape_may_decide_an_axis_that_the_last_layer_fixes():
    assert Sequential[Flatten, Linear[12, 5]].gives((3, 2, 2)) == (5,)
    assert Sequential[ReLU, Convolution[3, 4, 1]].takes((4, 8, 8)) == (3, 8, 8)


def test_an_image_too_small_for_its_kernel_is_refused():
    with pytest.raises(ShapeError, match=r"takes \(3, H, W\), not \(3, 2, 9\)"):
        Convolution[3, 4, 5].gives((3, 2, 9))


def test_solve_leaves_nothing_open():
    solved = MLP.solve()
    assert str(solved) == "(784) -> (10)"
    assert (solved.inputs[0].shape, solved.outputs[0].shape) == ((784,), (10,))
    assert MLP.solve((7, 784)).outputs[0].shape == (7, 10)
    with pytest.raises(CompositionError) as found:
        Convolution[3, 4, 1].solve()
    assert str(found.value) == (
        "Convolution[3, 4, 1], (3, H, W) -> (4, H, W): H, W of (3, H, W) can be anything; "
        "give the shape of a sample, such as input=(3, 32, 32)"
    )


def test_a_target_follows_from_the_prediction():
    target = CrossEntropy.solve((7, 10)).inputs[1]
    assert (target.shape, target.dtype, target.limit) == ((7,), "i32", 10)
    assert CrossEntropy.solve((10,)).inputs[1].shape == ()
    assert SoftCrossEntropy.solve((7, 10)).inputs[1].shape == (7, 10)
    assert MSE.solve((7, 10)).inputs[1].shape == (7, 10)
    assert MSE.solve((7, 10)).inputs[1].dtype is None
    assert [p.shape for p in Accuracy.solve((10,)).outputs] == [(), ()]
    with pytest.raises(ShapeError) as found:
        CrossEntropy.solve((7, 10), (8,))
    assert str(found.value) == "CrossEntropy takes (*, C), (*: i32 < C), not (7, 10), (8,)"


def test_dtypes_are_part_of_a_signature():
    net = Sequential[Embedding[65, 8], Linear[8, 4]]
    assert str(net.shapes()) == "(T: i32 < 65) -> (T, 4)"
    assert net.gives((5,)) == (5, 4)
    with pytest.raises(CompositionError) as found:
        Sequential[Linear[3, 4], Embedding[65, 8]]
    assert str(found.value) == (
        "layers 0 and 1 of Sequential do not fit\n\n"
        "    Sequential[Linear[3, 4], Embedding[65, 8]]\n"
        "               ~~~~~~~~~~~~  ~~~~~~~~~~~~~~~~\n"
        "               gives (*, 4)  takes (T: i32 < 65)\n\n"
        "  They differ in what their elements are."
    )


def test_ranks_that_differ():
    with pytest.raises(CompositionError) as found:
        Sequential[Flatten, Convolution[3, 4, 1]]
    assert str(found.value) == (
        "layers 0 and 1 of Sequential do not fit\n\n"
        "    Sequential[Flatten, Convolution[3, 4, 1]]\n"
        "               ~~~~~~~  ~~~~~~~~~~~~~~~~~~~~\n"
        "               |        takes (3, H, W)\n"
        "               gives (C*H*W)\n\n"
        "  They differ in the number of axes."
    )


@pytest.mark.parametrize(
    ("ask", "kind", "message"),
    [
        (lambda: MLP.gives((5,)), ShapeError, "MLP takes (*, 784), not (5,)"),
        (lambda: MLP.takes((11,)), ShapeError, "MLP gives (*, 10), never (11,)"),
        (
            lambda: MLP.gives(784),  # type: ignore[arg-type]
            CompositionError,
            "a shape is a tuple: write (784,), not 784",
        ),
        (
            lambda: MLP.gives("784"),  # type: ignore[arg-type]
            CompositionError,
            "a shape is a tuple such as (784,), not '784'",
        ),
        (
            lambda: MLP.gives((784,), (3,)),
            ShapeError,
            "MLP takes 1 values, (*, 784), not 2",
        ),
        (
            lambda: MLP.gives((7.5, 784)),  # type: ignore[arg-type]
            CompositionError,
            "the shape (7.5, 784): 7.5 is not the length of an axis",
        ),
        (
            lambda: MLP.gives((0, 784)),
            CompositionError,
            "the shape (0, 784): an axis has at least one element, not 0",
        ),
        (
            lambda: CrossEntropy.gives((10,), (3, 4)),
            ShapeError,
            "CrossEntropy takes (*, C), (*: i32 < C), not (10,), (3, 4)",
        ),
        (
            lambda: Convolution[3, 4, 5].gives((3, 9, 4)),
            ShapeError,
            "Convolution[3, 4, 5] takes (3, H, W), not (3, 9, 4), of which it would make (4, 5, 0)",
        ),
        (
            lambda: Sequential[ReLU, Convolution[3, 4, 5]].gives((3, 9, 4)),
            CompositionError,
            "layers 0 and 1 of Sequential, given (3, 9, 4), do not fit\n\n"
            "    Sequential[ReLU, Convolution[3, 4, 5]]\n"
            "               ~~~~  ~~~~~~~~~~~~~~~~~~~~\n"
            "               |     takes (3, H, W), of which it would make (4, 5, 0)\n"
            "               gives (3, 9, 4)",
        ),
    ],
)
def test_shapes_that_are_refused(ask: Any, kind: type[Exception], message: str):
    with pytest.raises(kind) as found:
        ask()
    assert str(found.value) == message


def test_branches_side_by_side_must_agree_in_the_other_axes():
    wide = Convolution.of(3, 8, 3, padding=1)
    assert Parallel[ReLU, Tanh].gives((5, 6)) == (5, 12)
    assert Parallel[wide, Convolution.of(3, 8, 1)].gives((3, 5, 6)) == (8, 5, 12)
    with pytest.raises(CompositionError) as found:
        Parallel[wide, Convolution.of(3, 4, 1)]
    assert "branches 0 and 1 of Parallel cannot be put side by side" in str(found.value)
    assert "may differ in the last axis only" in str(found.value)
