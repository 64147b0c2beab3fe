"""What a module's trace gives, held against its signature, and the mistakes of those who write
one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import noeira
from noeira.errors import CompositionError, ShapeError
from noeira.ir.graph import Value
from noeira.ir.op import OPS, Op
from noeira.ir.types import TensorType
from noeira.nn import (
    MSE,
    CrossEntropy,
    Fused,
    Linear,
    Loss,
    Metric,
    Module,
    Param,
    ReLU,
    Scope,
    Sequential,
    Tanh,
    flag,
    size,
)
from noeira.tracing import trace


def module(signature: str, run: Callable[..., Any], name: str = "Q", **space: Any) -> Any:
    """A module type with this signature and this trace."""
    body = {"signature": signature, "trace": classmethod(lambda _, s, *xs: run(s, *xs)), **space}
    return type(Module)(name, (space.pop("parent", Module),), body)


def says(net: Any, message: str, **options: Any) -> None:
    """The whole message when the network is traced."""
    with pytest.raises(CompositionError) as found:
        trace(net, batch=2, **options)
    assert str(found.value) == message


def relu(scope: Scope, x: Value) -> Value:
    return scope.emit("relu", x)


def test_an_output_is_what_the_signature_promises():
    short = module("(*, 4) -> (*, 5)", relu)
    message = "its signature promises (*, 5), its trace gave f32[2, 4], not f32[2, 5]"
    says(short, f"Q: {message}")
    says(Sequential[short, Linear[5, 3]], f"Q at 0: {message}")
    says(Sequential[short, Linear[5, 3]], f"Q at 0: {message}", loss=CrossEntropy)
    with pytest.raises(CompositionError, match=r"Q: its signature promises \(\*, 5\), its trace"):
        Fused[short, Tanh]
    with pytest.raises(CompositionError, match="Q at 0: its signature promises"):
        noeira.compile(Sequential[short, Linear[5, 3]], loss=CrossEntropy).prepare()


def test_open_axes_are_decided_by_the_inputs():
    def halves(scope: Scope, x: Value) -> Value:
        return scope.emit("reshape", x, shape=(*x.type.shape[:-1], x.type.shape[-1] // 2, 2))

    half = module("(*, 2*D) -> (*, D)", halves)
    message = "Q: its signature promises (*, D), its trace gave f32[2, 3, 2], not f32[2, 3]"
    says(half, message, input=(6,))
    assert trace(module("(*, 2*D) -> (*, D, 2)", halves), input=(6,))


def test_the_first_axis_of_an_output_is_the_batch():
    summed = module("(3) -> (3)", lambda s, x: s.emit("sum", x, axes=(0,)))
    says(summed, "Q: its signature promises (3), its trace gave f32[3], not f32[2, 3]")
    total = module("(3) -> ()", lambda s, x: s.emit("sum", x))
    says(total, "Q: its signature promises (), its trace gave f32[], not f32[2]")


def test_the_number_of_outputs_and_their_dtype():
    pair = module("(A) -> (A), (A)", relu)
    says(pair, "Q: its signature promises 2 values, (A), (A), its trace gave 1", input=(3,))
    single = module("(*) -> (*)", lambda s, x: (relu(s, x), x))
    says(single, "Q: its signature promises 1 value, (*), its trace gave 2", input=(3,))
    whole = module("(*) -> (*: i32)", relu)
    says(
        whole,
        "Q: its signature promises (*: i32), its trace gave f32[2, 3], not i32[2, 3]",
        input=(3,),
    )
    ids = module("(*: i32) -> (*)", lambda s, x: x)
    says(ids, "Q: its signature promises (*), its trace gave i32[2, 3], not f32[2, 3]", input=(3,))
    assert trace(module("(*) -> (*)", relu), input=(3,), dtype="f64")


@pytest.mark.parametrize(("dtype", "other"), [("f64", "f32"), ("f32", "bf16")])
def test_an_output_without_a_dtype_has_that_of_the_network(dtype: Any, other: str):
    def cast(to: str) -> Any:
        return lambda s, x: s.emit("cast", x, dtype=to or s.dtype)

    wrong = f"its trace gave {other}[2, 3], not {dtype}[2, 3]"
    options = {"input": (3,), "dtype": dtype}
    says(module("(*) -> (*)", cast(other)), f"Q: its signature promises (*), {wrong}", **options)
    assert trace(module(f"(*) -> (*: {other})", cast(other)), **options)
    assert trace(module("(*) -> (*)", cast("")), **options)


def test_a_trace_may_run_children_on_what_it_cast():
    back = module("(*) -> (*)", lambda s, x: s.emit("cast", x, dtype=s.dtype), "Back")
    children = classmethod(lambda _: (("f", ReLU), ("back", back)))

    def run(scope: Scope, x: Value) -> Value:
        half = scope.child("f", ReLU).run(scope.emit("cast", x, dtype="bf16"))
        return scope.child("back", back).run(half)

    assert trace(module("(*) -> (*)", run, children=children), input=(3,))


def test_losses_and_metrics_give_numbers_of_the_batch():
    rows = module("(*), (*) -> ()", lambda s, p, t: s.emit("subtract", p, t), "Rows", parent=Loss)
    says(
        Linear[3, 2],
        "Rows at loss: its signature promises (), its trace gave f32[2, 2], not f32[]",
        loss=rows,
    )
    counted = module(
        "(*, C), (*: i32 < C) -> (), ()",
        lambda s, p, t: s.emit("top_k", p, t)[0],
        "Counted",
        parent=Metric,
    )
    says(
        Linear[3, 2],
        loss=CrossEntropy,
        message="Counted at metric.0: its signature promises 2 values, (), (), its trace gave 1",
        metrics=(counted,),
    )


def test_a_child_is_given_what_it_takes():
    def wrong(scope: Scope, x: Value) -> Value:
        return scope.child("lin", Linear[4, 3]).run(x)

    children = classmethod(lambda _: (("lin", Linear[4, 3]),))
    says(
        module("(*, 5) -> (*, 3)", wrong, children=children),
        "Linear[4, 3] at lin takes (*, 4) after the batch axis, "
        "but the trace of Q gives it f32[2, 5]",
    )
    says(
        module(
            "(*, 4) -> (*, 3)", lambda s, x: s.child("lin", Linear[4, 3]).run(), children=children
        ),
        "Linear[4, 3] at lin takes (*, 4) after the batch axis, "
        "but the trace of Q gives it nothing",
    )
    says(
        module(
            "(*, 4) -> (*, 3)",
            lambda s, x: s.child("lin", Linear[4, 3]).run(2.0),
            children=children,
        ),
        "Linear[4, 3] at lin: input 1 is 2.0, not a value of the graph",
    )
    assert trace(module("(*, 4) -> (*, 3)", wrong, children=children))


def test_a_child_is_listed():
    def run(scope: Scope, x: Value) -> Value:
        return scope.child("lin", Linear[4, 3]).run(x)

    says(
        module("(*, 4) -> (*, 3)", run),
        "Q.children() does not list 'lin': "
        "define the classmethod children(cls), giving (('lin', Linear[4, 3]),)",
    )
    other = classmethod(lambda _: (("lin", Linear[4, 4]),))
    says(
        module("(*, 4) -> (*, 3)", run, children=other),
        "Q.children() lists 'lin' as Linear[4, 4], its trace has Linear[4, 3] there",
    )


@pytest.mark.parametrize(
    ("made", "shown"),
    [(None, "None"), (3, "3"), ([1, 2], "a list of 2"), ((), "a tuple of 0")],
)
def test_trace_gives_values(made: Any, shown: str):
    says(
        module("(*) -> (*)", lambda s, x: (s.emit("relu", x), made)[1]),
        f"Q.trace must return the value it emitted last (or a tuple of values), not {shown}",
        input=(3,),
    )


def test_operands_are_values():
    weight = Param("4", init="bias")
    for wrong, message in (
        (
            2.0,
            "2.0, not a value: numbers go in as attributes, "
            'as in scope.emit("scale", x, factor=2.0)',
        ),
        (None, "None, not a value"),
        (
            (1, 2),
            "a tuple of 2, not a value: emit gives a tuple for an op of several results; "
            "take one of them",
        ),
        (weight, 'the declaration of w (write scope.param("w")), not a value'),
    ):
        net = module("(*, 4) -> (*, 4)", lambda s, x, w=wrong: s.emit("multiply", x, w), w=weight)
        says(net, f"Q: operand 2 of multiply is {message}")


def test_a_parameter_that_does_not_exist():
    def run(scope: Scope, x: Value) -> Value:
        return scope.emit("multiply", x, scope.param("ww"))

    w = Param("N", init="bias")
    says(module("(N) -> (N)", run, N=size(), w=w)[3], "Q[3] has no parameter ww; it has w")
    says(module("(3) -> (3)", run), "Q has no parameter ww; it has none")
    off = module("(3) -> (3)", run, ON=flag(False), ww=Param("3", init="bias", when="ON"))
    says(off, "Q has no ww: it is made with on=False")


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

    yield
    del OPS[RowFlip.name], OPS[RowPick.name]


@pytest.mark.usefixtures("row_ops")
def test_an_op_along_the_last_axis_does_not_mix_samples():
    flip = module("(*) -> (*)", lambda s, x: s.emit("row_flip", x))
    assert trace(flip, batch=2, input=(3,))
    says(
        Sequential[ReLU, flip],
        "Q at 1: row_flip works along the last axis, but one sample has no axis here: f32[2] is "
        'the batch alone; give it one in the signature, such as "(*, D) -> (*, D)"',
    )
    first = module("() -> ()", lambda s, x: s.emit("columns", x, start=0, width=1))
    says(
        first,
        "Q: columns works along the last axis, but one sample has no axis here: f32[2] is the "
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
        first = scope.emit("columns", wide, start=1, width=3)
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
