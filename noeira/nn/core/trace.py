"""trace: a network type becomes a graph, unfused, its parameters the members of one flat state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal

from noeira.errors import CompositionError
from noeira.ir.graph import ROOT, Builder, ComputeGraph, Origin, Value
from noeira.ir.states import COUNTER, INPUT, LOSS, SEED, TARGET, TICK, is_reserved
from noeira.ir.types import Layout, TensorType
from noeira.nn.core.init import Initializer, Kaiming, initializer
from noeira.nn.core.module import Module
from noeira.nn.core.scope import Scope
from noeira.nn.core.signature import Pattern, Shape, Signature
from noeira.nn.core.tensors import Tensors, tensors

Phase = Literal["train", "eval"]


def trace(
    net: type[Module],
    *,
    batch: int = 1,
    loss: type[Module] | None = None,
    metrics: Sequence[type[Module]] = (),
    input: Shape | tuple[Shape, ...] | None = None,
    phase: Phase = "train",
    init: Initializer | type[Initializer] = Kaiming,
    dtype: str = "f32",
    entry: str = "forward",
) -> ComputeGraph:
    """The forward graph of a type: from %x (%x0, %x1, …) and, with a loss or metrics, %target, to
    its outputs.

    Returns the network's outputs; with a loss or metrics it returns their values, and not the
    outputs. A graph of phase train with a loss has %seed and %tick, and counts its calls.
    input: shapes of one sample, for axes that the type leaves open. Raises CompositionError or
    ShapeError.
    """
    shapes = net.solve(*per_sample(net, input))
    builder = Builder(f"{graph_name(net)}.{entry}")
    own = tensors(net, initializer(init), dtype)
    values = declare_tensors(builder, net, own)
    if phase == "train" and loss is not None:
        values |= {name: builder.state(name, COUNTER) for name in (SEED, TICK)}
    inputs = [
        builder.input(name, typed(p, batch, dtype), p.limit)
        for name, p in zip(input_names(shapes), shapes.inputs, strict=True)
    ]
    scope = Scope(builder, net, values, phase=phase)
    with_targets = [kind for kind in (loss, *metrics) if kind is not None]
    target = declare_target(builder, net, shapes, with_targets, batch, dtype)
    given = scope.run(*inputs)
    outputs = given if isinstance(given, tuple) else (given,)
    check_hints(builder)
    found = list(outputs) if target is None else list[Value]()
    # Losses and metrics have no tensors of their own.
    beside = replace(scope, values={n: values[n] for n in (SEED, TICK) if n in values})
    if loss is not None:
        made = replace(beside, module=loss, path=LOSS).run(outputs[0], target)
        found.append(made if made.name == LOSS else copied(builder, made, LOSS))
    for index, kind in enumerate(metrics):
        made = replace(beside, module=kind, path=f"metric.{index}").run(outputs[0], target)
        found += made if isinstance(made, tuple) else (made,)
    taken = update_states(builder, own, scope.updated)
    if TICK in values:
        count_calls(builder, values[TICK])
    return builder.done(owned(builder, found, taken))


def check_hints(builder: Builder) -> None:
    """Raises CompositionError if a module calls a result what every program calls its own."""
    for node in builder.nodes:
        for value in node.outputs:
            if is_reserved(value.name):
                raise CompositionError(
                    f"{node.origin.type} at {node.origin.path} calls a result {value.name}, which "
                    "is a value of every program; give another hint"
                )


def graph_name(net: type[Module]) -> str:
    """The network's name as a graph's: lower-case."""
    return net.__name__.lower()


def per_sample(
    net: type[Module], input: Shape | tuple[Shape, ...] | None
) -> tuple[Shape | None, ...]:
    """The given shapes, one for each input. Raises CompositionError if their number is wrong."""
    count = len(net.shapes().inputs)
    if input is None:
        return (None,) * count
    nested = isinstance(input, tuple) and any(isinstance(axis, tuple) for axis in input)
    shapes: tuple[Shape, ...] = input if nested else (input,)  # type: ignore[assignment]
    if len(shapes) != count:
        raise CompositionError(
            f"{net!r} takes {count} inputs, but input gives {len(shapes)} shapes"
        )
    return shapes


def input_names(shapes: Signature) -> tuple[str, ...]:
    """x, or x0, x1, … if there are several."""
    count = len(shapes.inputs)
    return (INPUT,) if count == 1 else tuple(f"{INPUT}{i}" for i in range(count))


def typed(pattern: Pattern, batch: int, dtype: str) -> TensorType:
    """The type of a batch of samples."""
    return TensorType(pattern.dtype or dtype, (batch, *pattern.shape))


def declare_tensors(builder: Builder, net: type[Module], own: Tensors) -> dict[str, Value]:
    """Declare the parameters and the states of modules; gives them by their dotted paths."""
    values = own.values()
    for path in values:
        if is_reserved(path):
            raise CompositionError(
                f"{net!r}: a tensor of the network itself cannot be called {path}, which is a "
                "value of every program; give it another name"
            )
    builder.layouts += own.layouts
    for state in own.states:
        builder.state(state.value.name, state.value.type, state.members, state.initial)
    return values


def declare_target(
    builder: Builder,
    net: type[Module],
    shapes: Signature,
    kinds: Sequence[type[Module]],
    batch: int,
    dtype: str,
) -> Value | None:
    """Declare %target as the losses and metrics want it; all must want the same."""
    if not kinds:
        return None
    if len(shapes.outputs) != 1:
        raise CompositionError(f"{net!r} gives {len(shapes.outputs)} outputs; a loss takes one")
    prediction = shapes.outputs[0]
    wanted = [kind.solve(prediction.written(), None).inputs[1] for kind in kinds]
    for kind, pattern in zip(kinds, wanted, strict=True):
        if pattern != wanted[0]:
            raise CompositionError(
                f"{kinds[0]!r} takes targets {wanted[0]} and {kind!r} takes {pattern}; "
                "one target cannot be both"
            )
    return builder.input(TARGET, typed(wanted[0], batch, dtype), wanted[0].limit)


def update_states(builder: Builder, own: Tensors, updated: Mapping[str, Value]) -> set[str]:
    """Update the states that modules gave new values, a flat one as a whole; gives the names of the
    values that lie in their memory.
    """
    values, taken = own.values(), set[str]()
    for state in own.states:
        names = [part.name for part in (state.members or (state.value,))]
        if not any(name in updated for name in names):
            continue
        new = owned(builder, [updated.get(n, values[n]) for n in names], taken, "state")
        taken |= {value.name for value in new}
        if state.members:
            with builder.at(Origin(ROOT, "states side by side", "trace")):
                new = [packed(builder, own.layout(state.value.name), new, state.value.name)]
        builder.update(state.value, new[0])
    return taken


def packed(builder: Builder, layout: Layout, parts: Sequence[Value], state: str) -> Value:
    """The new value of a flat state."""
    offsets = tuple(member.offset for member in layout.members)
    return builder.emit(
        "pack",
        *parts,
        layout=layout.name,
        size=layout.size,
        offsets=offsets,
        hint=f"{state}.next",
    )


def count_calls(builder: Builder, tick: Value) -> None:
    """Let %tick count the calls, whether they are ok or not."""
    with builder.at(Origin(ROOT, "count of calls", "trace")):
        builder.update(tick, builder.emit("count", tick, hint=f"{TICK}.next"))


def owned(
    builder: Builder, values: Sequence[Value], taken: set[str], purpose: str = "output"
) -> list[Value]:
    """The values in memory of their own: copied where they are given, only a view, twice there, or
    taken for something else.
    """
    free = {v.name for node in builder.nodes if node.op.launches for v in node.outputs} - taken
    found = list[Value]()
    for value in values:
        found.append(value if value.name in free else copied(builder, value, purpose))
        free.discard(value.name)
    return found


def copied(builder: Builder, value: Value, name: str) -> Value:
    """The value in memory of its own, under a name."""
    with builder.at(Origin(ROOT, name, "trace")):
        return builder.emit("copy", value, hint=name)
