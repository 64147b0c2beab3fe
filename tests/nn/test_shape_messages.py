"""What is said of layers of shapes that cannot be, and of chains with shapes that are counted."""

from __future__ import annotations

import pytest
from says import says

import noeira
from noeira.errors import CompositionError
from noeira.nn import (
    Concat,
    DepthToSpace,
    Flatten,
    Graph,
    InputSlot,
    Linear,
    Node,
    Pad,
    PixelShuffle,
    ReduceMean,
    ReduceSum,
    Reshape,
    Sequential,
    Slice,
    ToNHWC,
    Transpose,
    Transpose2D,
)


@pytest.mark.parametrize(
    ("net", "text", "signature"),
    [
        (Flatten, "Flatten", "(*) -> (N) where (*) has N elements"),
        (Flatten[24], "Flatten[24]", "(*) -> (24) where (*) has 24 elements"),
        (Flatten.of(axes=2), "Flatten.of(axes=2)", "(*, A0, A1) -> (*, A0*A1)"),
        (Reshape[4, -1], "Reshape[4, -1]", "(*) -> (4, N) where (*) has 4*N elements"),
        (Transpose2D[3, 4], "Transpose2D[3, 4]", "(*, 3, 4) -> (*, 4, 3)"),
        (Transpose[-1, -3, -2], "Transpose[-1, -3, -2]", "(*, A, B, C) -> (*, C, A, B)"),
        (Slice[1, -1], "Slice[1, -1]", "(*, N) -> (*, N - 2)"),
        (Slice.of(0, 2, axis=-2), "Slice.of(0, 2, axis=-2)", "(*, N, D1) -> (*, 2, D1)"),
        (Pad[1, 1, 2, 2], "Pad[1, 1, 2, 2]", "(*, A, B) -> (*, A + 4, B + 2)"),
        (Concat[3], "Concat.of(count=3)", "(*, A), (*, B), (*, C) -> (*, A + B + C)"),
        (ReduceSum, "ReduceSum", "(*) -> ()"),
        (ReduceMean.of(-2, keep=True), "ReduceMean.of(-2, keep=True)", "(*, A0, A1) -> (*, 1, A1)"),
    ],
)
def test_types_print_as_they_are_written(net: type, text: str, signature: str) -> None:
    assert repr(net) == text
    assert eval(text) is net
    assert str(net.shapes()) == signature  # type: ignore[attr-defined]


def test_elements_are_counted_along_a_chain() -> None:
    head = Sequential[DepthToSpace[2], ToNHWC, Flatten, Linear[784, 10]]
    assert head.gives((4, 14, 14)) == (10,)
    assert Sequential[Flatten, Linear[784, 10]].gives((28, 28)) == (10,)
    assert Sequential[Linear[3, 24], Reshape[2, -1], Flatten].gives((3,)) == (24,)
    # Without a shape, a sample is one row of as many numbers.
    assert Sequential[Flatten, Linear[784, 10]].solve().inputs[0].shape == (784,)
    says(
        lambda: head.solve((4, 14, 13)),
        """layers 2 and 3 of Sequential, given (4, 14, 13), do not fit

    Sequential[DepthToSpace[2], ToNHWC, Flatten, Linear[784, 10]]
                                        ~~~~~~~  ~~~~~~~~~~~~~~~
                                        |        takes (*, 784)
                                        gives (728)

  Change Linear[784, 10] to Linear[728, 10].""",
    )
    says(
        lambda: Sequential[Linear[3, 23], Reshape[2, 3, 4]],
        """layers 0 and 1 of Sequential do not fit

    Sequential[Linear[3, 23], Reshape[2, 3, 4]]
               ~~~~~~~~~~~~~  ~~~~~~~~~~~~~~~~
               gives (*, 23)  takes (*): 24 elements in all""",
    )
    says(
        lambda: Graph[InputSlot["x", 23], Node["y", Reshape[2, 3, 4], "x"]],
        """"x" and "y" of Graph do not fit

    Graph[InputSlot["x", 23], Node["y", Reshape[2, 3, 4], "x"]]
          ~~~~~~~~~~~~~~~~~~  ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
          is (23)             takes (*): 24 elements in all""",
    )


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Flatten[0], "N must be a positive whole number or None, not 0"),
        (lambda: Reshape[0, 3], "lengths are at least 1, and one may be -1"),
        (lambda: Reshape[-1, -1], "lengths are at least 1, and one may be -1"),
        (lambda: Reshape[2.0], "must be whole numbers of at least -1, not 2.0; write 2"),
        (lambda: Transpose[0, 1], "counted from the end: -1 for the last, -2, …, not 0"),
        (lambda: Transpose[-1], "moves nothing: write Transpose[-1, -2]"),
        (lambda: Transpose[-1, -3], "has an order of 2 axes: name each of -2, -1 once"),
        (lambda: Transpose[-1, -1], "Transpose[-1, -1] names axis -1 twice"),
        (lambda: PixelShuffle[2], "that of PyTorch is DepthToSpace[2]"),
        (lambda: PixelShuffle[4, 3, 3], "SCALE must divide GRID"),
        (lambda: Slice[5, 2], "takes no elements: STOP must be behind START"),
        (lambda: Pad[1], "1 amounts; there are two for each axis, before and after"),
        (lambda: Pad[1, -1], "must be whole numbers of at least 0, not -1"),
        (lambda: ReduceSum.of(keep=True), "keep goes with axes: write ReduceSum.of(-1, …)"),
        (lambda: Concat[1], "count must be a whole number of at least 2, not 1"),
        (lambda: Reshape[()], "Reshape is empty: write Reshape[shape] with at least one number"),
    ],
)
def test_mistakes(make: object, said: str) -> None:
    with pytest.raises(CompositionError) as found:
        make()  # type: ignore[operator]
    assert said in str(found.value)


def test_a_window_that_is_not_there() -> None:
    with pytest.raises(CompositionError, match=r"Slice\[2, 5\] reads elements 2 to 4 of an axis"):
        noeira.compile(Slice[2, 5], input=(4,), target="reference")
