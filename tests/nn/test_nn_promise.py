"""What a module's trace gives, held against its signature, and the mistakes of those who write
one.
"""

from __future__ import annotations

from typing import Any

import pytest
from made_modules import module

import noeira
from noeira.errors import CompositionError
from noeira.ir.graph import Value
from noeira.nn import (
    CrossEntropy,
    Fused,
    Linear,
    Loss,
    Metric,
    Param,
    ReLU,
    Scope,
    Sequential,
    Tanh,
    flag,
    size,
)
from noeira.tracing import trace


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
