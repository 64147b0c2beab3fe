"""What the passes that make a training step share: they find each other's values by name."""

from __future__ import annotations

from noeira.ir.builder import Builder
from noeira.ir.graph import ComputeGraph, Value
from noeira.ir.states import (
    CLIPPED,
    COUNTER,
    GRADS,
    LEARNING_RATE,
    MEAN_GRADS,
    STEP,
    optimizer_state,
)
from noeira.ir.types import TensorType
from noeira.passes.base import defined


def made(graph: ComputeGraph, name: str) -> Value | None:
    """The value called `name` that a node of the graph gives; None if there is none."""
    values = (v for node in graph.nodes for v in node.outputs)
    return next((value for value in values if value.name == name), None)


def newest_gradients(graph: ComputeGraph, by: str) -> Value:
    """All gradients, as the last pass that changed them left them. Raises VerifyError if there are
    none.
    """
    changed = made(graph, CLIPPED) or made(graph, MEAN_GRADS)
    return changed or defined(graph, GRADS, by)


def learning_rate(builder: Builder, dtype: str, value: float) -> Value:
    """The state %lr, declared unless it is there."""
    return shared_state(builder, LEARNING_RATE, TensorType(dtype, ()), f"constant({value!r})")


def updates_made(builder: Builder, optimizer: str) -> Value:
    """The count of updates of an optimizer's op, declared unless it is there."""
    return shared_state(builder, optimizer_state(optimizer, STEP), COUNTER)


def shared_state(builder: Builder, name: str, type: TensorType, *initial: str) -> Value:
    """The state of that name, which the first pass that needs it declares."""
    for state in builder.states:
        if state.value.name == name:
            return state.value
    return builder.state(name, type, initial=initial)
