"""What `suggest` finds: runs in chains and in graphs of modules, and what to write for them."""

from __future__ import annotations

from typing import Any

import pytest

import noeira
from noeira.nn import (
    Add,
    ExternalNode,
    Fused,
    Graph,
    InputSlot,
    Linear,
    LinearReLU,
    Module,
    Mul,
    Node,
    Output,
    ReLU,
    Residual,
    Sequential,
    Sigmoid,
    Tanh,
)
from noeira.report.runs import fusible_runs
from noeira.report.suggest import counted
from noeira.stages import stages_of

X, A = InputSlot["x", 3], Node["a", Linear[3, 3], "x"]
G, Y = Node["g", Sigmoid, "a"], Node["y", Mul, "a", "g"]
JOINED = Node["y", Fused[A, G, Y], "x"]


def test_runs_do_not_cross_what_no_kernel_can_join():
    paths = [run.paths for run in fusible_runs(Sequential[ReLU, Linear[3, 3], Linear[3, 3], Tanh])]
    assert paths == [("2", "3")]
    assert fusible_runs(Linear[3, 4]) == ()
    assert fusible_runs(Sequential[LinearReLU[4, 3], Linear[3, 2]]) == ()


def test_a_module_with_its_own_trace_is_no_chain():
    class Twice(Sequential[Linear[3, 3], ReLU]):
        """Runs its layers in an order of its own."""

        @classmethod
        def trace(cls, scope: Any, x: Any) -> Any:
            return super().trace(scope, super().trace(scope, x))

    assert fusible_runs(Twice) == ()


def test_a_residual_at_the_top_is_looked_into():
    (found,) = noeira.suggest(Residual[Sequential[Linear[3, 3], ReLU]], batch=5)
    assert found.places == (("0.0", "0.1"),)


def test_nodes_of_graphs():
    (joined,) = noeira.suggest(Graph[X, A, G, Y], batch=5)
    assert joined.fused == repr(JOINED) and joined.places == (("a", "g", "y"),)
    assert joined.parts == (repr(A), repr(G), repr(Y))
    before, after = (
        counted(stages_of(net, batch=5, isa="plain").fused.graph)
        for net in (Graph[X, A, G, Y], Graph[X, JOINED])
    )
    assert joined.saves == before - after
    assert not noeira.suggest(Graph[X, JOINED], batch=5)


@pytest.mark.parametrize(
    ("graph", "written"),
    [
        # A chain needs no nodes inside, and a kernel has no kernels inside.
        (
            Graph[X, Node["a", LinearReLU[3, 3], "x"], Node["y", Tanh, "a"]],
            ('Node["y", Fused[Linear[3, 3], ReLU, Tanh], "x"]',),
        ),
        (
            Graph[X, Node["a", LinearReLU[3, 3], "x"], Node["y", Add, "a", "x"]],
            (
                'Node["y", Fused[Node["a", Sequential[Linear[3, 3], ReLU], "x"], '
                'Node["y", Add, "a", "x"]], "x"]',
            ),
        ),
        # What is read elsewhere ends a run; one of two nodes that read a value can take it in.
        (Graph[X, A, Node["y", Tanh, "a"], Output["y", "a"]], ()),
        (Graph[X, A, Node["b", Tanh, "a"], Node["y", Linear[3, 3], "a"], Output["b", "y"]], ()),
        # What is shared stays where it is, but what is inside it may be fused.
        (
            Graph[
                X,
                Node["a", Sequential[Linear[3, 3], ReLU], "x"],
                ExternalNode.of("b", Sequential[Linear[3, 3], ReLU], "a", owner="a"),
                Node["y", Tanh, "b"],
            ],
            ("LinearReLU[3, 3]",),
        ),
    ],
)
def test_what_is_written_in_graphs(graph: type[Module], written: tuple[str, ...]):
    assert tuple(run.write for run in fusible_runs(graph)) == written


def test_a_graph_with_its_own_trace_is_left_alone():
    class Doubled(Graph[X, A, Node["y", Tanh, "a"]]):
        """Runs its nodes, and more."""

        @classmethod
        def trace(cls, scope: Any, *inputs: Any) -> Any:
            return super().trace(scope, *inputs) + inputs[0]

    assert fusible_runs(Doubled) == ()
