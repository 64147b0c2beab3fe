"""InputGradient: a module and the gradient of what it gives in what it takes, by its own backward
pass, which training differentiates again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from noeira.errors import CompositionError
from noeira.ir.gradients import gradients
from noeira.ir.graph import TRACE, Node, Value
from noeira.nn.combinators.container import Wrapper
from noeira.nn.core.module import Module
from noeira.nn.core.promise import mixed, where
from noeira.nn.core.scope import Scope
from noeira.nn.core.signature import Pattern, Signature, listed
from noeira.nn.core.unify import Misfit, solve

__all__ = ["InputGradient"]

# What the names of these gradients begin with: that of %x is %g.x.
MARK = "g"
# How one number a sample is written.
NUMBERS = (Pattern((1,)), Pattern(()))


class InputGradient(Wrapper):
    """`InputGradient[M]`: M(x, …), and ∂M/∂x beside it, for an M that gives one number a sample.

    Takes what M takes, gives what M gives and, of the shape of its first input, the gradient in
    that: of each sample by itself, so nothing in M may mix them. The gradient is exact: the
    backward pass of M stands in the graph, and its own is part of a training step ("double
    backward"), as the penalties of Gulrajani et al. 2017 (WGAN-GP) and Mescheder et al. 2018 (R1)
    need it; see the loss `GradientPenalty`. Parameters: those of M, under their own names, so M
    alone reads the same checkpoints.
    Raises CompositionError where M gives more than a number, its first input is none of floats, or
    a part of it puts samples together; VerifyError if an op in it has no (second) derivative.
    """

    @classmethod
    def children(cls) -> tuple[tuple[str, type[Module]], ...]:
        return (("", cls.INNER),)

    @classmethod
    def compose(cls) -> Signature:
        signature = cls.INNER.shapes()
        first, owner = signature.inputs[0], cls.family.__name__
        if first.dtype is not None:
            raise CompositionError(
                f"{owner}: {cls.INNER!r} takes {first} first, and only floats have a gradient"
            )
        fits = (number_a_sample(signature, number) for number in NUMBERS)
        found = next(filter(None, fits), None)
        if found is None:
            raise CompositionError(
                f"{owner}: {cls.INNER!r} gives {listed(signature.outputs)}, and the gradient is "
                "that of one number a sample: let it give (1) or ()"
            )
        return replace(found, outputs=(*found.outputs, found.inputs[0]))

    @classmethod
    def trace(cls, scope: Scope, x: Value, *further: Value) -> tuple[Value, Value]:
        start = len(scope.builder.nodes)
        y = scope.child("", cls.INNER).run(x, *further)
        one = scope.emit("constant", value=1.0, dtype=y.type.dtype, hint=f"{MARK}.one")
        seed = scope.emit("broadcast", one, shape=y.type.shape, hint=MARK)
        with scope.builder.at(scope.builder.origin, region=scope.region):
            found = gradients(scope.builder, {y.name: seed}, [x], TRACE, MARK).get(x.name)
        if found is None:
            zero = scope.emit("constant", value=0.0, dtype=x.type.dtype, hint=f"{MARK}.zero")
            found = scope.emit("broadcast", zero, shape=x.type.shape, hint=MARK)
        made = leading_to((y, found), scope.builder.nodes[start:])
        given = {value.name for value in (x, *further, seed)}
        if (node := mixed(made, given)) is not None:
            raise CompositionError(
                f"{where(scope)}: {node.origin.type} at {node.origin.path} puts samples together "
                f"({node.op.name}), and the gradient is to be that of each by itself: what follows "
                "from a whole batch, such as its mean, may not be inside"
            )
        if scope.by_sample:
            scope.by_sample.update(given)
        return y, found

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """A tensor of the module, which has no position of its own: `net[0].weight`."""


def number_a_sample(signature: Signature, number: Pattern) -> Signature | None:
    """The signature with its one output a number a sample; None if it is not."""
    if len(signature.outputs) != 1 or signature.outputs[0].dtype is not None:
        return None
    try:
        return solve(signature, [], [number])
    except Misfit:
        return None


def leading_to(values: Sequence[Value], nodes: Sequence[Node]) -> list[Node]:
    """Those of the nodes that the values are made of."""
    needed, found = {value.name for value in values}, list[Node]()
    for node in reversed(nodes):
        if not needed.isdisjoint(value.name for value in node.outputs):
            needed.update(value.name for value in node.inputs)
            found.append(node)
    return found[::-1]
