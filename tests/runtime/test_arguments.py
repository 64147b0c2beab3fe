"""What programs take: arrays however they lie, several inputs, and one message for each mistake."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from program_networks import Small, data

import noeira
from noeira.errors import DataError, DtypeError
from noeira.ir.graph import Value
from noeira.ir.ops.elementwise import Elementwise
from noeira.ir.scalar import Expr, var
from noeira.nn import (
    Adam,
    CrossEntropy,
    Module,
    ReLU,
    Scope,
    Sequential,
    Tanh,
)


class Counted(Elementwise):
    """n x, n whole numbers."""

    name, operands, numbers = "counted", ("x", "n"), ("n",)

    def expression(self, attrs: Any) -> Expr:
        return var("x") * var("n")


class Times(Module):
    """n x for whole numbers of some dtype."""

    @classmethod
    def trace(cls, scope: Scope, x: Value, n: Value) -> Value:
        return scope.emit("counted", x, n)


def given_otherwise(x: np.ndarray, y: np.ndarray) -> list[tuple[Any, Any]]:
    """The same batch, but not as arrays that are taken as they are."""
    frozen, view = x.copy(), x.view(np.memmap)
    frozen.flags.writeable = False
    swapped = y.astype(y.dtype.newbyteorder())
    return [
        (np.asfortranarray(x), y.astype(np.int64)),
        (np.repeat(x, 2, axis=0)[::2], y.astype(np.uint8)),
        (frozen, np.repeat(y, 2)[::2]),
        (view, swapped),
        (x.astype(x.dtype.newbyteorder()), y),
    ]


@pytest.mark.parametrize("target", ["cpu", "reference"])
def test_a_batch_has_one_result_however_it_lies_in_memory(target: str) -> None:
    x, y = data(10)
    y = y.astype(np.int32)
    program = noeira.compile(Small, loss=CrossEntropy, batch=10, target=target)
    entry = program.entries["gradients"]
    assert entry.takes((x, y)) and program.entries["forward"].takes((x,))
    loss, z = program.gradients(x, y), program.forward(x)
    for other_x, other_y in given_otherwise(x, y):
        assert not entry.takes((other_x, other_y)) or not other_x.flags.writeable
        assert program.gradients(other_x, other_y) == loss
        np.testing.assert_array_equal(program.forward(other_x), z)


def test_what_is_taken_as_it_is_needs_no_message() -> None:
    x, y = data(10)
    y = y.astype(np.int32)
    entry = noeira.compile(Small, loss=CrossEntropy, batch=10).entries["gradients"]
    wrong = [(x,), (x, y, y), (x[:9], y), (x.astype("f8"), y), (list(x), y), (x, y[None])]
    wrong += [(x, np.where(np.arange(10) == 7, bad, y).astype("i4")) for bad in (5, -1, -(2**31))]
    assert not any(entry.takes(given) for given in wrong)


@pytest.mark.parametrize("target", ["cpu", "reference"])
@pytest.mark.parametrize(
    ("dtype", "least", "most"),
    [
        ("i32", -(2**31), 2**31 - 1),
        ("i64", -(2**63), 2**63 - 1),
        ("u8", 0, 255),
        ("i32 < 5", 0, 4),
        ("i64 < 5", 0, 4),
        ("u8 < 5", 0, 4),
    ],
)
def test_whole_numbers_are_indices_where_they_have_a_limit(
    dtype: str, least: int, most: int, target: str
) -> None:
    net = type(Module)("Net", (Times,), {"signature": f"(), (: {dtype}) -> ()"})
    program = noeira.compile(net, target=target, batch=3)
    x, n = np.ones(3, np.float32), np.array([least, 1, most])
    np.testing.assert_array_equal(program.forward((x, n)), n.astype(np.float32))
    own = n.astype({"i32": np.int32, "i64": np.int64, "u8": np.uint8}[dtype[:3].strip()])
    np.testing.assert_array_equal(program.forward((x, own)), n.astype(np.float32))
    for wrong in (least - 1, most + 1):
        if -(2**63) <= wrong < 2**63:
            with pytest.raises(DataError, match=f"x1.1. is {wrong}; it must be from {least} to"):
                program.forward((x, np.array([least, wrong, 0])))
    with pytest.raises(DtypeError, match=r"must be integers: write x1\.astype\(np\."):
        program.forward((x, x))


def test_an_array_whose_memory_moved_is_read_where_it_is() -> None:
    x, _ = data(8)
    program = noeira.compile(Small, batch=8)
    moving = x.copy()
    program.forward(moving)
    # As NumPy does it for a caller who says that nobody else uses the array.
    moving.resize((80_000, 13), refcheck=False)
    moving.resize((8, 13), refcheck=False)
    moving[...] = 2 * x
    np.testing.assert_array_equal(program.forward(moving), program.forward(2 * x))


def test_results_of_forward_are_the_callers() -> None:
    x, _ = data(20)
    program = noeira.compile(Small, batch=8)
    kept = [program.forward(x[:8]), program.forward(x), program.forward(x[8:16])]
    copies = [array.copy() for array in kept]
    program.forward(x[4:12])
    program.forward(2 * x)
    for array, copy in zip(kept, copies, strict=True):
        np.testing.assert_array_equal(array, copy)
    np.testing.assert_array_equal(kept[1][8:16], kept[2])


WRONG = [
    (
        lambda p, x, y: p.step(x[:9], y),
        "ShapeError",
        "x has 9 rows; this program was compiled for batch=10",
    ),
    (lambda p, x, y: p.step(x[:, :3], y), "ShapeError", "x has shape (10, 3), it must be (10, 13)"),
    (
        lambda p, x, y: p.step(x.astype("f8"), y),
        "DtypeError",
        "x is float64; this program takes float32: write x.astype(np.float32)",
    ),
    (
        lambda p, x, y: p.step(x, y.astype("f4")),
        "DtypeError",
        "y is float32; it must be integers",
    ),
    (
        lambda p, x, y: p.step(x, np.where(np.arange(10) == 7, 5, y)),
        "DataError",
        "y[7] is 5; it must be from 0 to 4",
    ),
    (lambda p, x, y: p.step(x, y - 9), "DataError", "it must be from 0 to 4"),
    (lambda p, x, y: p.step(x, y.astype("i8") + 2**32), "DataError", "y[0] is 42949672"),
    (lambda p, x, y: p.step([[1.0]], y), "DtypeError", "x is a list, not an array"),
    (
        lambda p, x, y: p.step(x, y.tolist()),
        "DtypeError",
        "y is a list, not an array: write np.asarray(y, np.int32)",
    ),
    (lambda p, x, y: p.step((x, x), y), "ShapeError", "takes 1 input, got 2"),
    (lambda p, x, y: p.forward(x[:0]), "ShapeError", "x has no rows"),
    (lambda p, x, y: p.steps(1), "NoeiraError", "has no data: call load(x, y) first"),
    (
        lambda p, x, y: p.load(x[:5], y[:5]),
        "ShapeError",
        "5 samples are fewer than one batch of 10",
    ),
    (lambda p, x, y: p.load(x, y[:5]), "ShapeError", "y has 5 rows, x has 10"),
    (lambda p, x, y: p.params["0.wieght"], "KeyError", "did you mean '0.weight'?"),
    (
        lambda p, x, y: setattr(p, "batch", 20),
        "NoeiraError",
        "batch was compiled in: compile(…, batch=20)",
    ),
    (
        lambda p, x, y: setattr(p, "learning_rate", 0.5),
        "NoeiraError",
        "learning_rate of a program cannot be set; did you mean lr?",
    ),
    (
        lambda p, x, y: p.tensors.load([x]),
        "CheckpointError",
        "tensors.load takes the path of a safetensors file, or arrays by name, not [",
    ),
    (
        lambda p, x, y: p.tensors.save("w.safetensors", dtype="float16"),
        "OptionError",
        "dtype must be one of f32, f64, bf16, f16, not 'float16'",
    ),
    (lambda p, x, y: p.params["step"], "KeyError", "there are 0.weight"),
    (lambda p, x, y: p.params.__setitem__("2.bias", x), "ShapeError", "2.bias has shape (5,)"),
    (
        lambda p, x, y: p.params.__setitem__("2.bias", np.zeros(5)),
        "DtypeError",
        "2.bias is float32, not float64, which would be rounded: write value.astype(np.float32)",
    ),
    (
        lambda p, x, y: p.params.__setitem__("2.bias", [0, 1, 2, 1e300, 4]),
        "DtypeError",
        "2.bias[3] cannot be 1e+300: float32 has no such number",
    ),
    (
        lambda p, x, y: p.params.__setitem__("2.bias", np.full(5, 2**24 + 1)),
        "DtypeError",
        "2.bias[0] cannot be 16777217: float32 has no such number",
    ),
    (
        lambda p, x, y: p.load(x, y, evaluation=(x, y + 9)),
        "DataError",
        "evaluation y[0] is",
    ),
    (
        lambda p, x, y: p.load(x, y, evaluation=(x.astype("f8"), y)),
        "DtypeError",
        "evaluation x is float64; this program takes float32: write x.astype(np.float32)",
    ),
    (
        lambda p, x, y: p.load(x, y, evaluation=(x, y[:5])),
        "ShapeError",
        "evaluation y has 5 rows, evaluation x has 10",
    ),
    (lambda p, x, y: p.steps(-1), "OptionError", "whole number of at least 1, not -1"),
    (lambda p, x, y: p.steps(1.5), "OptionError", "whole number of at least 1, not 1.5"),
    (lambda p, x, y: setattr(p, "lr", -1), "NoeiraError", "lr must be a finite number"),
    (lambda p, x, y: setattr(p, "lr", float("nan")), "NoeiraError", "lr must be a finite number"),
    (lambda p, x, y: p.load(x, y, evaluation=x), "DataError", "evaluation must be a pair (x, y)"),
]


@pytest.mark.parametrize("target", ["cpu", "reference"])
@pytest.mark.parametrize(("call", "kind", "message"), WRONG, ids=[w[2] for w in WRONG])
def test_bad_input_gets_one_clear_message(call, kind: str, message: str, target: str) -> None:
    x, y = data(10)
    program = noeira.compile(Small, loss=CrossEntropy, optimizer=Adam(), batch=10, target=target)
    error = KeyError if kind == "KeyError" else getattr(noeira, kind)
    with pytest.raises(error) as caught:
        call(program, x, y)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch": 0}, "batch must be a whole number of at least 1, not 0"),
        ({"batch": 2.0}, "batch must be a whole number"),
        ({"target": "gpu"}, "there is no target 'gpu'; there are cpu, cuda, cuda-cpu, reference"),
        ({"optimizer": Adam()}, "an optimizer needs a loss"),
        ({"loss": "ce"}, "loss"),
        ({"dtype": "f16"}, "f32 or f64"),
        ({"seed": -1}, "seed"),
    ],
)
def test_wrong_options(options: dict, message: str) -> None:
    with pytest.raises(noeira.NoeiraError) as caught:
        noeira.compile(Small, **options)
    assert message in str(caught.value)


def interrupted(*sizes: int) -> Any:
    """A build that the user ends."""
    raise KeyboardInterrupt


def no_compiler(*sizes: int) -> Any:
    """A build that fails."""
    raise noeira.CompilerError("the compiler failed")


@pytest.mark.parametrize(
    ("error", "change"),
    [
        (noeira.ShapeError, lambda x, y: (x, y[:5])),
        (noeira.DataError, lambda x, y: (x, y + 9)),
        (noeira.ShapeError, lambda x, y: (x[:5], y[:5])),
        (noeira.DtypeError, lambda x, y: (x.astype("f8"), y)),
        (noeira.CompilerError, no_compiler),
        (KeyboardInterrupt, interrupted),
    ],
    ids=["rows", "labels", "too few", "dtype", "compiler", "Ctrl-C"],
)
def test_a_load_that_fails_leaves_the_data_that_was_there(
    error: type[BaseException], change: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def losses(failing: bool) -> list[float]:
        x, y = data(47)
        program = noeira.compile(Small, loss=CrossEntropy, optimizer=Adam(), batch=10)
        program.load(x, y, evaluation=(x[:23], y[:23]))
        found = [program.steps(3)]
        if failing and change in (no_compiler, interrupted):
            with monkeypatch.context() as patched, pytest.raises(error):
                patched.setattr(program, "build_resident", change)
                program.load(x[:30], y[:30])
        elif failing:
            with pytest.raises(error):
                program.load(*change(x, y))
            with pytest.raises(noeira.DataError):
                program.load(x, y, evaluation=(x, y + 9))
        found += [program.steps(4), program.evaluate()["loss"]]
        program.load(x, y)
        return [*found, program.steps(5)]

    assert losses(True) == losses(False)


def test_a_closed_program_says_so() -> None:
    with noeira.compile(Small, batch=1) as program:
        pass
    with pytest.raises(noeira.NoeiraError, match="is closed"):
        program.forward(np.zeros((1, 13), "f4"))


def test_an_open_axis_is_named() -> None:
    with pytest.raises(noeira.CompositionError, match="compile takes a network type"):
        noeira.compile(3)  # type: ignore[arg-type]
    program = noeira.compile(Sequential[Tanh, ReLU], batch=2, input=(3, 4))
    assert program.forward(np.ones((5, 3, 4), "f4")).shape == (5, 3, 4)


class Mix(noeira.nn.Module):
    """tanh(x W + c V): a module of two inputs."""

    A, B, OUT = noeira.nn.size(), noeira.nn.size(), noeira.nn.size()
    left = noeira.nn.Param("A", "OUT")
    right = noeira.nn.Param("B", "OUT")
    signature = "(*, A), (*, B) -> (*, OUT)"

    @classmethod
    def trace(cls, scope: noeira.nn.Scope, x: Any, c: Any) -> Any:
        sums = (scope.emit("linear", v, scope.param(n)) for v, n in ((x, "left"), (c, "right")))
        return scope.emit("tanh", scope.emit("add", *sums))


def test_several_inputs_are_a_tuple() -> None:
    net = Mix[13, 4, 5]
    x, y = data(12)
    c = np.random.default_rng(9).standard_normal((12, 4)).astype("f4")
    program = noeira.compile(net, loss=CrossEntropy, optimizer=Adam(lr=1e-2), batch=6)
    expected = np.tanh(x @ program.params["left"] + c @ program.params["right"])
    np.testing.assert_allclose(program.forward((x, c)), expected, atol=1e-5)
    first = program.step((x[:6], c[:6]), y[:6])
    program.load((x, c), y, evaluation=((x, c), y))
    for _ in range(50):
        program.steps(2)
    assert program.evaluate()["loss"] < first
    with pytest.raises(noeira.ShapeError, match=r"takes 2 inputs, got 1: write a tuple \(x0, x1\)"):
        program.step(x[:6], y[:6])
    with pytest.raises(noeira.ShapeError, match="x1 has 11 rows, x0 has 12"):
        program.forward((x, c[:11]))


@pytest.mark.parametrize("target", ["cpu", "reference"])
def test_indices_that_are_loaded_are_not_the_callers(target: str) -> None:
    x, y = data(12)
    x, y = x.copy(), y.astype(np.int32)
    program = noeira.compile(Small, loss=CrossEntropy, optimizer=Adam(), batch=4, target=target)
    program.load(x, y, evaluation=(x, y))
    before = program.evaluate()
    bound = [a for point in program.entries.values() for a in point.arrays.values()]
    assert any(np.shares_memory(x, array) for array in bound)
    assert not any(np.shares_memory(y, array) for array in bound)
    y[:] = 50_000_000
    assert program.evaluate() == before
    assert np.isfinite(program.steps(3))
