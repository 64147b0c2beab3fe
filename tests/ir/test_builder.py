"""What a builder says of what is no operand."""

from __future__ import annotations

import re
from typing import Any

import pytest

import noeira
from noeira.ir.builder import Builder
from noeira.ir.types import TensorType


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (None, "tanh: operand 0 is None: an operand that is not given is left out"),
        ((1, 2), "tanh: operand 0 is a tuple of 2: name one of its values, or write *values"),
        (2.0, "tanh: operand 0 is 2.0, which is no value of the graph"),
    ],
)
def test_an_operand_is_a_value(given: Any, said: str) -> None:
    with pytest.raises(noeira.VerifyError, match=re.escape(said)):
        Builder("test").emit("tanh", given)


def test_a_type_has_a_dtype_that_there_is() -> None:
    builder = Builder("test")
    x = builder.input("x", TensorType("f31", (3,)))
    said = r"tanh: an operand is f31\[3\], which is of none of the dtypes: f32, f64, bf16,"
    with pytest.raises(noeira.ShapeError, match=said):
        builder.emit("tanh", x)
