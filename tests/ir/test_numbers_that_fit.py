"""Which numbers there are in a dtype: the same are refused on every target."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import noeira
from noeira.ir.arrays import numpy_dtype, rounded, shortest
from noeira.ir.builder import Builder
from noeira.ir.initial import begin_state
from noeira.ir.layouts import Range
from noeira.ir.random import FURTHEST_NORMAL, Distribution, constant, fill
from noeira.ir.types import DTYPES, FLOATS, TensorType
from noeira.nn import MSE, SGD, Adam, Buffer, Linear, Module, Normal
from noeira.tracing import trace


@pytest.mark.parametrize("dtype", FLOATS)
def test_floats_fit_that_are_rounded_to_a_finite_one(dtype: str) -> None:
    largest = DTYPES[dtype].largest
    ends = [largest * (1 + 2.0**-bits) for bits in range(2, 54)] if dtype != "f64" else []
    for value in (*ends, 0.1, 1e-300, largest, -largest, *(-end for end in ends)):
        assert DTYPES[dtype].fits(value) == bool(np.isfinite(rounded(np.array(value), dtype)))
    assert all(map(DTYPES[dtype].fits, (np.inf, -np.inf, np.nan)))


@pytest.mark.parametrize("dtype", ["i32", "i64", "u8"])
def test_whole_numbers_fit_as_they_are(dtype: str) -> None:
    about = np.iinfo(numpy_dtype(dtype))
    assert all(map(DTYPES[dtype].fits, (int(about.min), int(about.max), 0.0, 3.0)))
    wrong = (int(about.min) - 1, int(about.max) + 1, 0.5, np.inf, -np.inf, np.nan)
    assert not any(map(DTYPES[dtype].fits, wrong))


@pytest.mark.parametrize(
    ("attrs", "said"),
    [
        ({"value": 1.5, "dtype": "i64"}, "constant: 1.5 does not fit in i64"),
        ({"value": 2**63, "dtype": "i64"}, "constant: 9.223372036854775808e+18 does not fit"),
        ({"value": -1, "dtype": "u8"}, "constant: -1.0 does not fit in u8"),
        ({"value": 1e300}, "constant: 1e+300 does not fit in f32"),
        ({"value": 2**53 + 1, "dtype": "i64"}, "value must be a number that a float of 64 bits"),
        ({"value": 10**400}, "value must be a number that a float of 64 bits has without loss"),
        ({"value": 1, "dtype": "f8"}, "constant: there is no dtype 'f8'; there are f32, f64"),
    ],
)
def test_constants_that_do_not_fit(attrs: dict[str, Any], said: str) -> None:
    said = re.escape(said.replace("9.223372036854775808e+18", repr(2.0**63)))
    with pytest.raises(noeira.NoeiraError, match=said):
        Builder("constants").emit("constant", **attrs)


@pytest.mark.parametrize(
    ("name", "attrs"),
    [
        ("scale", {"factor": 1e300}),
        ("sum", {"scale": -1e300}),
        ("broadcast", {"shape": (3,), "scale": 1e300}),
        ("leaky_relu", {"slope": 1e39}),
    ],
)
def test_factors_that_do_not_fit(name: str, attrs: dict[str, Any]) -> None:
    for dtype, fits in (("f32", False), ("bf16", False), ("f64", True)):
        builder = Builder("factors")
        x = builder.input("x", TensorType(dtype, (3,)))
        if fits:
            builder.emit(name, x, **attrs)
        else:
            with pytest.raises(noeira.DtypeError, match=f"{name}: -?1e.* does not fit in f32"):
                builder.emit(name, x, **attrs)


@pytest.mark.parametrize(
    ("optimizer", "said"),
    [
        (SGD(lr=1e300), r"SGD: lr is 1e\+300, which does not fit in f32, the dtype of the network"),
        (SGD(weight_decay=1e39), r"SGD: weight_decay is 1e\+39, which does not fit in f32"),
        (Adam(eps=1e300), r"Adam: eps is 1e\+300, which does not fit in f32"),
    ],
)
def test_numbers_of_optimizers_that_do_not_fit(optimizer: Any, said: str) -> None:
    with pytest.raises(noeira.OptionError, match=said):
        noeira.compile(Linear[3, 2], loss=MSE, optimizer=optimizer)
    for name in ("f32", "f64"):
        largest = DTYPES[name].largest
        for fitting in (SGD(lr=largest), SGD(weight_decay=largest), Adam(eps=1e-300)):
            noeira.compile(
                Linear[3, 2], loss=MSE, optimizer=fitting, dtype=name, target="reference"
            )


@pytest.mark.parametrize("name", ["sgd", "adam"])
def test_numbers_of_an_updates_node_that_do_not_fit(name: str) -> None:
    tables = ((Range(0, 4, (("weight_decay", 1e300),)),), (Range(0, 4, (("lr_factor", 1e39),)),))
    for dtype, fits in (("f32", False), ("f64", True)):
        flat, scalar = TensorType(dtype, (4,)), TensorType(dtype, ())
        for attrs in ({"weight_decay": 1e300}, *({"ranges": table} for table in tables)):
            builder = Builder("update")
            types = {"p": flat, "g": flat, "lr": scalar}
            types |= {"step": TensorType("i64", ()), "ok": TensorType("bool", ())}
            types |= {"m": flat, "v": flat} if name == "adam" else {}
            given = [builder.input(*pair) for pair in types.items()]
            if fits:
                builder.emit(name, *given, **attrs)
            else:
                with pytest.raises(noeira.DtypeError, match=rf"{name}: \w+: 1e.* does not fit"):
                    builder.emit(name, *given, **attrs)


def test_a_learning_rate_that_does_not_fit() -> None:
    program = noeira.compile(Linear[3, 2], loss=MSE, optimizer=SGD(lr=0.5), target="reference")
    with pytest.raises(noeira.OptionError, match=r"lr cannot be 1e\+39, which does not fit in f32"):
        program.lr = 1e39
    assert program.lr == 0.5
    program.lr = 1e-300
    assert program.lr == 0.0


@pytest.mark.parametrize("dtype", ["f16", "bf16", "f32", "f64"])
def test_the_shortest_decimal_is_the_same_number(dtype: str) -> None:
    if dtype == "bf16":
        pytest.importorskip("ml_dtypes", reason="ml_dtypes is not installed")
    own = numpy_dtype(dtype)
    given = np.array(0.001).astype(own)
    assert shortest(given) == (0.001 if dtype != "bf16" else pytest.approx(0.001, rel=4e-3))
    bits = np.random.default_rng(0).integers(0, 256, (2000, own.itemsize), np.uint8)
    for number in bits.view(own)[:, 0]:
        if np.isfinite(float(number)):
            assert np.array(shortest(np.array(number))).astype(own) == number


class Kept(Module):
    """A layer with a whole number of its own."""

    number = Buffer(dtype="u8", init=constant(-1.0))
    signature = "(3) -> (3)"

    @classmethod
    def trace(cls, scope: Any, x: Any) -> Any:
        return x


@pytest.mark.parametrize("make", [trace, noeira.compile, lambda net, **o: net(**o)])
def test_initial_numbers_that_do_not_fit(make: Any) -> None:
    with pytest.raises(noeira.DtypeError, match=r"weight begins as normal\(0.0, 1e\+300\), which"):
        make(Linear[3, 2], init=Normal[0.0, 1e300])
    with pytest.raises(noeira.DtypeError, match=r"number begins as constant\(-1.0\), which"):
        make(Kept)
    make(Linear[3, 2], init=Normal[0.0, 1e300], dtype="f64")


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_distributions_fit_whose_numbers_are_finite(dtype: str) -> None:
    largest, wide = DTYPES[dtype].largest, DTYPES[dtype].largest * 0.49
    for fitting in (
        constant(-largest),
        Distribution("uniform", (-wide, wide)),
        Distribution("normal", (0.0, largest / FURTHEST_NORMAL / 1.01)),
        Distribution("truncated_normal", (wide, 2.0)),
    ):
        fitting.check_fits("w", dtype)
        assert np.isfinite(fill(fitting, 0, 0, (5000,), dtype)).all()
    with pytest.raises(noeira.DtypeError, match=r"w begins as normal.*, which does not fit"):
        Distribution("normal", (0.0, largest / 3)).check_fits("w", dtype)


def test_a_state_begins_with_what_fits() -> None:
    builder = Builder("states")
    # The upper end is never drawn.
    for dtype, high in (("u8", 256), ("i32", 2**31), ("i64", 2**63)):
        Distribution("uniform", (0.0, float(high))).check_fits("w", dtype)
    for dtype, text in (
        *(("i64", "constant(0.5)"), ("f32", "uniform(0.0, 1e39)")),
        *(("u8", "uniform(0.0, 257.0)"), ("i32", "constant(2147483648.0)")),
    ):
        builder.state(dtype, TensorType(dtype, ()), initial=(text,))
    for state in builder.states:
        array = np.zeros((), numpy_dtype(state.value.type.dtype))
        with pytest.raises(noeira.DtypeError, match=f"%{state.value.name} begins as .* not fit"):
            begin_state(builder.states, (), state, 0, array)
