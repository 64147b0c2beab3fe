"""In evaluation a row follows from one sample: what puts several together is refused, whatever the
batch is as long as.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np
import pytest
from made_modules import module
from says import says

import noeira
from noeira.errors import CompositionError, DtypeError, ShapeError, VerifyError
from noeira.ir.builder import Builder
from noeira.ir.graph import Attrs, Value
from noeira.ir.interpret import interpret
from noeira.ir.op import OPS, Op
from noeira.ir.types import TensorType
from noeira.nn import MSE, Param, ReLU, Scope, Sequential
from noeira.tracing import trace


@dataclass(frozen=True)
class PairsAttrs(Attrs):
    """rows: of the operand."""

    rows: int = 2


@dataclass(frozen=True)
class HeadsAttrs(Attrs):
    """rows: of the operand; heads: parts of its last axis; parts: the same."""

    rows: int = 1
    heads: int = 1
    parts: int = 1


@pytest.fixture
def row_ops() -> Iterator[None]:
    """Ops along the last axis, for as long as the test."""

    class RowFlip(Op):
        name, kind, operands = "row_flip", "row", ("x",)

        def infer(self, attrs: Any, *args: Any, **kwargs: Any) -> Any:
            return args

    class RowPick(Op):
        name, kind, operands = "row_pick", "row", ("x", "number")

        def infer(self, attrs: Any, *args: Any, **kwargs: Any) -> Any:
            x, number = args
            if number.shape != x.shape[:-1]:
                raise ShapeError("row_pick: one number for each row")
            return (TensorType(x.dtype, number.shape),)

    class RowPairs(Op):
        name, operands, Attrs = "row_pairs", ("x",), PairsAttrs

        def infer(self, attrs: Any, *args: Any, **kwargs: Any) -> Any:
            (x,) = args
            if x.shape[0] % 2 or x.shape[0] != attrs.rows:
                raise ShapeError("row_pairs: two rows at a time")
            return args

    class SplitHeads(Op):
        name, operands, Attrs = "split_heads", ("x",), HeadsAttrs

        def infer(self, attrs: Any, *args: Any, **kwargs: Any) -> Any:
            rows, steps, width = args[0].shape
            if rows != attrs.rows or width % attrs.heads or attrs.heads != attrs.parts:
                raise ShapeError("split_heads: other rows")
            shape = (rows, attrs.heads, steps, width // attrs.heads)
            return (TensorType(args[0].dtype, shape),)

    class FewRows(Op):
        name, operands = "few_rows", ("x", "others")

        def infer(self, attrs: Any, *args: Any, **kwargs: Any) -> Any:
            # Some say of what can never be that it is no graph at all.
            if (rows := args[0].shape[0]) > 8:
                raise (VerifyError if rows > 12 else ShapeError)("few_rows: at most 8 rows")
            return args[:1]

    own = (RowFlip, RowPick, RowPairs, SplitHeads, FewRows)
    yield
    for one in own:
        del OPS[one.name]


@pytest.mark.usefixtures("row_ops")
def test_an_op_along_the_last_axis_does_not_mix_samples():
    flip = module("(*) -> (*)", lambda s, x: s.emit("row_flip", x))
    assert trace(flip, batch=2, input=(3,))
    says(
        lambda: trace(Sequential[ReLU, flip], batch=2),
        "Q at 1: row_flip works along the last axis, but one sample has no axis here: f32[2] is "
        'the batch alone; give it one in the signature, such as "(*, D) -> (*, D)"',
    )
    first = module("() -> ()", lambda s, x: s.emit("slice", x))
    says(
        lambda: trace(first, batch=2),
        "Q: slice works along the last axis, but one sample has no axis here: f32[2] is the "
        'batch alone; give it one in the signature, such as "(*, D) -> (*, D)"',
    )


@pytest.mark.usefixtures("row_ops")
@pytest.mark.parametrize("phase", ["train", "eval"])
def test_what_has_one_number_for_each_row_is_no_row(phase: Any):
    pick = module("(D), (: i32) -> ()", lambda s, x, n: s.emit("row_pick", x, n))
    assert trace(pick, batch=3, phase=phase, input=((4,), ()))

    def first(scope: Scope, x: Value) -> Value:
        zero = scope.emit("constant", value=0.0)
        zeros = scope.emit("broadcast", zero, shape=x.type.shape[:1])
        return scope.emit("row_pick", x, zeros)

    assert trace(module("(3) -> ()", first), batch=3, phase=phase)


@pytest.mark.usefixtures("row_ops")
def test_in_evaluation_an_op_may_take_samples_in_pairs():
    pairs = module("(3) -> (3)", lambda s, x: s.emit("row_pairs", x, rows=x.type.shape[0]))
    assert trace(pairs, batch=4, phase="eval")


@pytest.mark.usefixtures("row_ops")
@pytest.mark.parametrize(("batch", "heads"), [(1, 1), (2, 2), (3, 2), (4, 4)])
def test_an_attribute_may_be_as_large_as_the_batch_by_chance(batch: int, heads: int):
    split = module(
        "(T, 8) -> (H, T, 8//H)".replace("H", str(heads)),
        lambda s, x: s.emit("split_heads", x, rows=x.type.shape[0], heads=heads, parts=heads),
    )
    assert trace(split, batch=batch, phase="eval", input=((5, 8),))


@pytest.mark.usefixtures("row_ops")
@pytest.mark.parametrize("batch", [5, 8])
def test_an_op_may_take_few_samples_only(batch: int):
    few = module("(3) -> (3)", lambda s, x: s.emit("few_rows", x, x))
    assert trace(few, batch=batch, phase="eval")


def test_many_operands_as_long_as_the_batch_are_judged_soon():
    def together(scope: Scope, x: Value) -> Value:
        one = scope.emit("constant", value=1.0)
        ones = [scope.emit("broadcast", one, shape=x.type.shape) for _ in range(40)]
        joined = scope.emit("concat", x, *ones)
        return scope.emit("slice", joined, lengths=(3,))

    assert trace(module("(3) -> (3)", together), batch=4, phase="eval")


def test_what_sums_over_the_batch_may_be_used_inside():
    def centred(scope: Scope, x: Value) -> Value:
        return scope.emit("subtract", x, scope.emit("sum", x, scale=0.5))

    assert trace(module("() -> ()", centred), batch=2)


def mixing(rule: Callable[[Scope, Value], Value]) -> Any:
    """A layer of three numbers."""
    return module("(3) -> (3)", rule)


def centred_rows(scope: Scope, x: Value) -> Value:
    return x - scope.emit("sum", x, axes=(0,), scale=0.5)


def kept_axis(scope: Scope, x: Value) -> Value:
    return x - scope.emit("reshape", scope.emit("sum", x, axes=(0,)), shape=(1, 3))


def products(scope: Scope, x: Value) -> Value:
    gram = scope.emit("matmul", x, x, transpose_b=True)
    return scope.emit("matmul", gram, x)


@pytest.mark.parametrize("batch", [1, 2, 3])
@pytest.mark.parametrize(
    ("rule", "op"), [(centred_rows, "sum"), (kept_axis, "sum"), (products, "matmul")]
)
def test_in_evaluation_no_sample_matters_for_another(rule: Any, op: str, batch: int):
    assert trace(mixing(rule), batch=batch, phase="train")
    with pytest.raises(CompositionError) as found:
        trace(Sequential[ReLU, mixing(rule)], batch=batch, phase="eval", input=(3,))
    assert str(found.value).startswith(f"Q at 1: {op} puts samples together, of f32[{batch}, 3]")
    with pytest.raises(CompositionError, match="puts samples together"):
        noeira.compile(mixing(rule), batch=batch, target="reference")


def sums(scope: Scope, x: Value) -> Value:
    return scope.emit("sum", x, axes=(-1,))


def softmax_of_samples(scope: Scope, x: Value) -> Value:
    rows = x.type.shape[0]
    return x * scope.emit("reshape", scope.emit("softmax", sums(scope, x)), shape=(rows, 1))


def forgotten_axis(scope: Scope, x: Value) -> Value:
    return x + sums(scope, x)


def repeated(scope: Scope, x: Value) -> Value:
    return x + scope.emit("broadcast", sums(scope, x), shape=x.type.shape)


def in_one_row(scope: Scope, x: Value) -> Value:
    return x + scope.emit("reshape", sums(scope, x), shape=(1, x.type.shape[0]))


@pytest.mark.parametrize(
    ("rule", "op"),
    [
        (softmax_of_samples, "softmax"),
        (forgotten_axis, "add"),
        (repeated, "broadcast"),
        (in_one_row, "reshape"),
    ],
)
def test_a_batch_as_long_as_a_row_is_none(rule: Any, op: str):
    assert trace(mixing(rule), batch=3, phase="train")
    with pytest.raises(CompositionError, match=f"Q: {op} puts samples together"):
        trace(mixing(rule), batch=3, phase="eval")


def test_an_op_along_the_batch_is_said_to_be_one():
    with pytest.raises(CompositionError) as found:
        trace(mixing(softmax_of_samples), batch=2, phase="eval")
    assert str(found.value) == (
        "Q: softmax puts samples together along the batch, of f32[2] it makes f32[2]. In "
        "evaluation each stands for itself, whatever else is in the batch: let this happen where "
        'scope.phase is "train", and read a Buffer elsewhere'
    )


@pytest.mark.parametrize("batch", [1, 2, 3, 4])
def test_in_evaluation_numbers_may_be_repeated_to_the_batch(batch: int):
    def beside(scope: Scope, x: Value) -> Value:
        shape = x.type.shape
        ones = scope.emit("broadcast", scope.emit("constant", value=1.0), shape=shape)
        rows = scope.emit("broadcast", scope.param("w"), shape=shape)
        wide = scope.emit("concat", x * ones, rows, ones)
        first = scope.emit("slice", wide, starts=(1,), lengths=(3,))
        kept = scope.emit("reshape", sums(scope, first), shape=(shape[0], 1))
        return scope.emit("matmul", rows - first * rows / kept, scope.param("square"))

    net = module("(3) -> (3)", beside, w=Param("3", init="bias"), square=Param("3", "3"))
    assert trace(net, batch=batch, phase="eval")


def test_in_evaluation_parameters_may_be_added_up():
    def scaled(scope: Scope, x: Value) -> Value:
        wide = scope.emit("reshape", x, shape=(x.type.shape[0], 3, 1))
        x = scope.emit("reshape", wide, shape=x.type.shape)
        return x * scope.emit("sum", scope.param("w"), axes=(0,))

    net = module("(3) -> (3)", scaled, w=Param("2", "3"))
    for loss in (None, MSE):
        assert trace(net, batch=2, phase="eval", loss=loss)


def emitted(scope: Scope, given: list[Value], random: Random) -> Value | None:
    """Any op of any values, of lengths that are often those of the batch; None if it cannot be."""
    batch, (x, y) = given[0].type.shape[0], random.choices(given, k=2)
    lengths = (1, 2, 3, batch)
    shapes = [tuple(random.choices(lengths, k=rank)) for rank in (1, 2, 3)]
    shapes += [(batch, *shape) for shape in (x.type.shape[1:], x.type.shape)]
    name, operands, attrs = random.choice(
        [
            *((name, (x, y), {}) for name in ("add", "linear", "concat", "matmul")),
            *(("matmul", (x, y), {f"transpose_{side}": True}) for side in "ab"),
            *(
                (name, (x,), {"shape": shape})
                for name in ("reshape", "broadcast")
                for shape in shapes
            ),
            *(("sum", (x,), {"axes": (axis,)}) for axis in (0, -1)),
            ("slice", (x,), {}),
            ("softmax", (x,), {}),
        ]
    )
    try:
        return scope.emit(name, *operands, **attrs)
    except (CompositionError, ShapeError, DtypeError):
        # What is refused may stand in the graph, where nothing reads it.
        return None


@pytest.mark.parametrize("seed", range(200))
def test_what_evaluation_takes_is_apart(seed: int):
    random, numbers = Random(seed), np.random.default_rng(seed)
    builder, batch = Builder("any"), random.choice((2, 3))
    shapes = [(batch, random.choice((2, 3))), (batch, batch), (batch,), (2, 3), (3, 2), (1, batch)]
    given = [builder.input(f"x{i}", TensorType("f32", shape)) for i, shape in enumerate(shapes)]
    scope = Scope(builder, ReLU, {}, phase="eval", by_sample={"x0"})
    for _ in range(12):
        if (value := emitted(scope, [given[0], *given], random)) is not None:
            given.append(value)
    graph = builder.done(given[-1:])
    arrays = {i.value.name: numbers.standard_normal(i.value.type.shape, "f4") for i in graph.inputs}
    changed = arrays | {"x0": arrays["x0"] + np.eye(batch, dtype="f4")[:, :1]}
    found, other = interpret(graph, arrays), interpret(graph, changed)
    for value in given:
        if value.name in scope.by_sample:
            np.testing.assert_array_equal(found[value.name][1:], other[value.name][1:])
