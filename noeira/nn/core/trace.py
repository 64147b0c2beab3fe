"""trace: a network type becomes a graph, unfused, its parameters the members of one flat state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from noeira.errors import CompositionError
from noeira.ir.graph import ROOT, Builder, ComputeGraph, Origin, Value
from noeira.ir.states import INPUT, LOSS, PARAMS, TARGET, is_reserved
from noeira.ir.types import TensorType
from noeira.nn.core.init import Initializer, Kaiming, initializer
from noeira.nn.core.module import Module
from noeira.nn.core.scope import Scope
from noeira.nn.core.signature import Pattern, Shape, Signature

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
    outputs.
    input: shapes of one sample, for axes that the type leaves open. Raises CompositionError or
    ShapeError.
    """
    shapes = net.solve(*per_sample(net, input))
    builder = Builder(f"{graph_name(net)}.{entry}")
    values = declare_tensors(builder, net, init, dtype)
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
    if target is None:
        return builder.done(owned(builder, outputs))
    found = list[Value]()
    if loss is not None:
        made = Scope(builder, loss, {}, path=LOSS, phase=phase).run(outputs[0], target)
        found.append(made if made.name == LOSS else copied(builder, made, LOSS))
    for index, kind in enumerate(metrics):
        path = f"metric.{index}"
        made = Scope(builder, kind, {}, path=path, phase=phase).run(outputs[0], target)
        found += made if isinstance(made, tuple) else (made,)
    return builder.done(owned(builder, found))


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


def declare_tensors(
    builder: Builder, net: type[Module], init: Initializer | type[Initializer], dtype: str
) -> dict[str, Value]:
    """Declare the parameters, members of one flat state, and the states; gives them by their dotted
    paths.
    """
    rule, infos = initializer(init), net.parameters()
    values: dict[str, Value] = {}
    for path in (*infos, *net.states()):
        if is_reserved(path):
            raise CompositionError(
                f"{net!r}: a tensor of the network itself cannot be called {path}, which is a "
                "value of every program; give it another name"
            )
    if infos:
        layout = net.layout()
        builder.layouts.append(layout)
        members = [Value(m.name, TensorType(dtype, m.shape)) for m in layout.members]
        initial = [str(infos[m.name].distribution(rule)) for m in layout.members]
        flat = TensorType(dtype, (layout.size,), layout.name)
        builder.state(PARAMS, flat, members, initial)
        values |= {m.name: m for m in members}
    for path, info in net.states().items():
        type = TensorType(info.dtype, info.shape)
        values[path] = builder.state(path, type, initial=(str(info.init),))
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


def owned(builder: Builder, outputs: Sequence[Value]) -> list[Value]:
    """The outputs, copied where they are given, only a view, the update of a state, or returned
    twice.
    """
    free = {v.name for node in builder.nodes if node.op.launches for v in node.outputs}
    free -= {update.new.name for update in builder.updates}
    found = list[Value]()
    for value in outputs:
        found.append(value if value.name in free else copied(builder, value, "output"))
        free.discard(value.name)
    return found


def copied(builder: Builder, value: Value, name: str) -> Value:
    """The value in memory of its own, under a name."""
    with builder.at(Origin(ROOT, "output", "trace")):
        return builder.emit("copy", value, hint=name)
