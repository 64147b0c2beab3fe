"""What a class statement of a module may say, and signs between values in a trace."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import noeira
from noeira.errors import CompositionError, FusionError
from noeira.ir.graph import Value
from noeira.ir.interpret import interpret
from noeira.ir.text.dump import Dump, parse_dump
from noeira.ir.types import TensorType
from noeira.nn import (
    Fused,
    Linear,
    LinearReLU,
    Module,
    Parallel,
    Param,
    ReLU,
    Scope,
    Sequential,
    Tanh,
    derived,
    size,
)
from noeira.nn.combinators import fused
from noeira.nn.core import unify

TRACE = classmethod(lambda cls, scope, x: scope.emit("relu", x))


def a_class(parent: type = Module, **body: Any) -> Callable[[], type]:
    """A class statement."""
    return lambda: type(Module)("Own", (parent,), body)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            a_class(values=Param("3", init="bias")),
            "Own: values is a name of Module's own; call it otherwise",
        ),
        (
            a_class(path=Param("3", init="bias")),
            "Own: path is a name of Module's own; call it otherwise",
        ),
        (
            a_class(trace=Param("3", init="bias")),
            "Own: trace is a name of Module's own; call it otherwise",
        ),
        (
            a_class(buffer=lambda self: 0),
            "Own: buffer is a name of Module's own; call it otherwise",
        ),
        (a_class(sizes=(1, 2)), "Own: sizes is a name of Module's own; call it otherwise"),
        (
            a_class(Tanh, op=Param("3", init="bias")),
            "Own: op is a name of Tanh's own; call it otherwise",
        ),
        (
            a_class(__init__=lambda self: None),
            "Own: a module has no __init__; type parameters are declared, IN = size(), and "
            "tensors, weight = Param(…)",
        ),
        (
            a_class(forward=lambda self, x: x),
            "Own: a module has no forward; what it computes is the classmethod "
            "trace(cls, scope, x)",
        ),
        (
            a_class(signature="(*) -> (*)", trace=lambda cls, scope, x: x),
            "Own.trace is no classmethod: write @classmethod def trace(cls, scope, x)",
        ),
        (
            a_class(signature="(*), (*) -> (*)", trace=TRACE),
            "Own.trace takes cls, scope, x, but its signature (*), (*) -> (*) has 2 inputs: "
            "write @classmethod def trace(cls, scope, x0, x1)",
        ),
    ],
)
def test_one_message_at_the_class_statement(make: Callable[[], type], message: str) -> None:
    with pytest.raises(CompositionError) as found:
        make()
    assert str(found.value) == message


def test_what_noeira_asks_of_a_type() -> None:
    class Named(Sequential[Linear[3, 4], Tanh]):
        """A child of a made type."""

    class Block(Sequential):
        D = size()
        LAYERS = derived(lambda block: (Linear[block.D, block.D], Tanh))

    assert Linear.family is Linear and not Linear.is_made and not Linear.is_complete
    assert Linear[3, 4].family is Linear and Linear[3, 4].is_made and Linear[3, 4].is_complete
    assert Named.family is Sequential and not Named.is_made and Named.is_complete
    assert Block.family is Block and not Block.is_complete and Block[3].family is Block
    assert Linear[3, 4].sizes == {"IN": 3, "OUT": 4}
    assert not hasattr(Linear[3, 4](), "values")


def test_a_tensor_whose_size_is_none_is_refused() -> None:
    class Gain(Module):
        DIM = size(None)
        gain = Param("DIM", init="bias")
        signature = "(*) -> (*)"
        trace = TRACE

    with pytest.raises(CompositionError, match=r"Gain\.gain: its axis DIM has no length, since"):
        Gain.parameters()
    assert Gain[3].parameters()["gain"].shape == (3,)


def test_two_tensors_at_one_path_are_refused() -> None:
    class Twice(Module):
        signature = "(*, 3) -> (*, 3)"

        @classmethod
        def children(cls) -> tuple[tuple[str, type[Module]], ...]:
            return (("", Linear[3, 3]), ("", Linear[3, 3]))

        @classmethod
        def trace(cls, scope: Scope, x: Value) -> Value:
            for name, part in cls.children():
                x = scope.child(name, part).run(x)
            return x

    with pytest.raises(CompositionError, match="Twice has two tensors called weight"):
        noeira.compile(Twice)


class Signs(Module):
    """Every sign, with values and with numbers."""

    signature = "(*), (*) -> (*)"

    @classmethod
    def trace(cls, scope: Scope, x: Value, y: Value) -> Value:
        return (2 - x) * y + x / (y * y + 1.0) - 3 * -y + 1 / (x * x + 2) - 4


def test_signs_between_values() -> None:
    random = np.random.default_rng(0)
    x, y = (random.standard_normal((4, 3)).astype("f4") for _ in range(2))
    expected = (2 - x) * y + x / (y * y + 1) + 3 * y + 1 / (x * x + 2) - 4
    for target in ("cpu", "reference"):
        program = noeira.compile(Signs, batch=4, input=((3,), (3,)), target=target)
        np.testing.assert_allclose(program.forward((x, y)), expected, rtol=1e-5)


def test_signs_stand_for_nodes_at_the_place_that_is_traced() -> None:
    class Twice(Module):
        signature = "(*) -> (*)"

        @classmethod
        def trace(cls, scope: Scope, x: Value) -> Value:
            return x + x

    graph = noeira.trace(Sequential[Tanh, Twice], input=(3,))
    node = graph.nodes[-1]
    assert (node.op.name, node.origin.path, node.origin.type) == ("add", "1", "Twice")


def test_signs_have_messages() -> None:
    value = Value("x", TensorType("f32", (2,)))
    with pytest.raises(CompositionError, match=r"%x \+ 1: signs between values are for the trace"):
        _ = value + 1

    class Text(Module):
        signature = "(*) -> (*)"

        @classmethod
        def trace(cls, scope: Scope, x: Value) -> Value:
            return x + "1"

    with pytest.raises(CompositionError, match="values and finite numbers, not '1'"):
        noeira.trace(Text, input=(3,))


def computing(rule: Callable[[Value], Any]) -> type[Module]:
    """A layer that computes something of its input."""

    class Computing(Module):
        signature = "(*) -> (*)"

        @classmethod
        def trace(cls, scope: Scope, x: Value) -> Value:
            return rule(x)

    return Computing


@pytest.mark.parametrize(
    "rule",
    [
        lambda x: np.float32(8) * x,
        lambda x: x * np.float32(8),
        lambda x: x * np.int64(8),
        lambda x: np.float64(8) * x,
        lambda x: np.array(8.0) * x,
        lambda x: x / np.float32(0.125),
    ],
)
def test_numbers_of_numpy_are_numbers(rule: Callable[[Value], Any]) -> None:
    graph = noeira.trace(computing(rule), input=(3,))
    values = interpret(graph, {"x": np.ones((1, 3), np.float32)})
    assert np.array_equal(values[graph.outputs[0].name], np.full((1, 3), 8.0))


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (lambda x: x**2, "%x**2: write x * x"),
        (
            lambda x: x**3,
            "%x**3: write products, or an element-wise op of your own, whose expressi",
        ),
        (
            lambda x: 2**x,
            '2**%x: write an element-wise op of your own, whose expression is call("p',
        ),
        (lambda x: x @ x, '%x @ %x: write scope.emit("matmul", x, w)'),
        (lambda x: 1 @ x, '1 @ %x: write scope.emit("matmul", x, w)'),
        (abs, '%x): write an element-wise op of your own, whose expression is call("abs", x)'),
        (lambda x: x < 0, "%x < 0: nothing is true or false while a graph is made: write an eleme"),
        (lambda x: x <= 0, 'whose expression is a select(call("le", x, …), yes, no)'),
        (lambda x: x > 0, 'whose expression is a select(call("gt", x, …), yes, no)'),
        (lambda x: x >= 0, 'whose expression is a select(call("ge", x, …), yes, no)'),
        (lambda x: x[0], "%x[…]: a value is read as a whole; columns of it, along the last axis, "),
        (lambda x: x[:, 1:], "%x[…]: a value is read as a whole"),
        (lambda x: tuple(x), "%x is one value, not several: its op has one result"),
        (lambda x: np.exp(x), "np.exp of %x: functions of NumPy take arrays: emit ops, as in scop"),
        (lambda x: np.mean(x), "%x is no array: functions of NumPy take arrays: emit ops"),
        (lambda x: np.asarray(x), "%x is no array: functions of NumPy take arrays: emit ops"),
        (lambda x: np.add(x, x, out=np.ones(3)), "np.add of %x: functions of NumPy take arrays"),
        (lambda x: np.ones((3, 3)) @ x, "np.matmul of %x: functions of NumPy take arrays"),
        (lambda x: np.ones(3) > x, "np.greater of %x: functions of NumPy take arrays"),
    ],
)
def test_what_a_value_does_not_have(rule: Callable[[Value], Any], message: str) -> None:
    with pytest.raises(CompositionError, match=re.escape(message)):
        noeira.trace(computing(rule), input=(3,))


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (lambda x: x * np.ones(3), "not an array of shape (3,); what a graph reads are parameters"),
        (lambda x: np.ones(3) * x, "not an array of shape (3,); what a graph reads are parameters"),
        (lambda x: x + np.bool_(True), "values and finite numbers, not np.True_"),
        (lambda x: x + np.float32(np.nan), "values and finite numbers, not np.float32(nan)"),
    ],
)
def test_arrays_are_no_part_of_a_graph(rule: Callable[[Value], Any], message: str) -> None:
    with pytest.raises(CompositionError, match=re.escape(message)):
        noeira.trace(computing(rule), input=(3,))


@pytest.mark.parametrize(("train", "phase"), [(True, "train"), (False, "eval")])
def test_a_fused_type_must_be_one_kernel_in_both_phases(train: bool, phase: str) -> None:
    class Twice(Module):
        DIM = size()
        weight = Param("DIM", "DIM")
        signature = "(*, DIM) -> (*, DIM)"

        @classmethod
        def trace(cls, scope: Scope, x: Value) -> Value:
            x = scope.emit("linear", x, scope.param("weight"))
            again = (scope.phase == "train") == train
            return scope.emit("linear", x, scope.param("weight")) if again else x

    with pytest.raises(FusionError, match=f"cannot be one kernel in phase {phase}: "):
        _ = Fused[Twice[3], Tanh]


def test_a_fused_type_may_leave_open_how_many_elements_go_where() -> None:
    class Flatten(Module):
        signature = "(H, W, C) -> (H*W*C)"

        @classmethod
        def trace(cls, scope: Scope, x: Value) -> Value:
            batch, *axes = x.type.shape
            return scope.emit("reshape", x, shape=(batch, math.prod(axes)))

    net = Fused[Flatten, Linear[30, 4], ReLU]
    assert net.gives((5, 2, 3)) == (4,)
    (launch,) = noeira.explain(net, loss=None, input=(5, 2, 3)).launches
    assert launch.op == "fused[linear, relu]"


def test_a_short_name_has_the_parameters_of_the_first_type() -> None:
    assert list(LinearReLU.slots) == list(Linear.slots)
    assert LinearReLU.of(3, 4, bias=False).IN == 3
    assert LinearReLU[3, 4] is Fused[Linear[3, 4], noeira.nn.ReLU]


def test_nodes_of_a_long_type_carry_a_short_text() -> None:
    wide = Parallel[tuple(Linear[4, 3 + index] for index in range(40))]
    graph = noeira.trace(Sequential[wide, Tanh])
    (node,) = (node for node in graph.nodes if node.op.name == "concat")
    assert node.origin.type == "Parallel[Linear[4, 3], … 39 more]"
    dump = Dump(graph, ("trace",), ())
    assert parse_dump(str(dump)) == dump


def test_the_work_of_composing_branches_grows_with_their_number(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls = list[str]()

    def counted(name: str) -> None:
        function = getattr(unify, name)
        monkeypatch.setattr(unify, name, lambda *a, **b: (calls.append(name), function(*a, **b))[1])

    def work(count: int) -> int:
        parts = tuple(Linear[4, 10_000 + index] for index in range(count))
        calls.clear()
        _ = Parallel[(*parts, Linear[4, count])]
        return len(calls)

    for name in ("substitute", "replace"):
        counted(name)
    assert work(200) < 5 * work(50)


def test_what_makes_one_kernel_is_asked_once_for_a_kind() -> None:
    _ = Fused[Linear[3, 4], Tanh, Tanh]
    before = set(fused.ONE_KERNEL)
    _ = Fused[Linear[5, 6], Tanh, Tanh]
    assert before == fused.ONE_KERNEL
    _ = Fused[Linear.of(5, 6, bias=False), Tanh, Tanh]
    assert len(fused.ONE_KERNEL) == len(before) + 1
