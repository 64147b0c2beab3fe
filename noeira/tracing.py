"""trace: a network type becomes a graph, unfused, its parameters the members of one flat state."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import replace
from typing import Literal, Unpack, get_args

from noeira.errors import CompositionError, OptionError
from noeira.ir.builder import Builder
from noeira.ir.graph import ROOT, ComputeGraph, Origin, Value
from noeira.ir.states import (
    COUNTER,
    DRAWS,
    INPUT,
    LOSS,
    SEED,
    TICK,
    is_of_metric,
    is_reserved,
    metric_count,
    metric_sum,
    numbered,
)
from noeira.ir.storage import Memory, placed
from noeira.nn.core.criteria import Criterion, declare_targets, run_metric, target_patterns, typed
from noeira.nn.core.module import Module, solved_for
from noeira.nn.core.scope import Scope
from noeira.nn.core.states import NetworkStates, network_states, update_states
from noeira.options import Options, TraceOptions, options_of, takes

Phase = Literal["train", "eval"]
# What a name that trace or a pass gives is.
OF_PROGRAMS = "a value of every program"


@takes(TraceOptions)
def trace(
    net: type[Module] | Module,
    *,
    phase: Phase = "train",
    entry: str = "forward",
    **options: Unpack[TraceOptions],
) -> ComputeGraph:
    """The forward graph of a network: from %x (%x0, %x1, …) and, with a loss, %target (%target0,
    …), to its outputs; with a loss instead of these to %loss, and the sum and count of each metric.

    phase: what the modules do, `train` or `eval`. entry: the second half of the graph's name. loss,
    batch, input, init, dtype: as for `compile`. metrics: none by default. Raises OptionError,
    CompositionError or ShapeError.
    """
    if phase not in get_args(Phase):
        raise OptionError(f"phase must be 'train' or 'eval', not {phase!r}")
    kind, found = options_of(net, {"metrics": (), **options}, "trace", taken=TraceOptions)
    return traced(kind, found, phase, entry)


def traced(net: type[Module], options: Options, phase: Phase, entry: str) -> ComputeGraph:
    """What `trace` gives for a network type and its options.

    A graph of phase train with a loss has %seed and %tick, which counts its calls; any other has
    %seed and %tick or %draws if random numbers are drawn in it.
    """
    shapes, dtype, batch = solved_for(net, options.input), options.dtype, options.batch
    loss, metrics = options.loss, options.metrics
    builder = Builder(f"{graph_name(net)}.{entry}")
    own = network_states(net, options.init, dtype)
    kept = frozenset() if options.optimizer is None else options.optimizer.states()
    values = declare_tensors(builder, net, own, kept)
    counted = (SEED, TICK) if phase == "train" and loss is not None else ()
    counters = {name: builder.state(name, COUNTER) for name in counted}
    inputs = [
        builder.input(name, typed(p, batch, dtype), p.limit)
        for name, p in zip(numbered(INPUT, len(shapes.inputs)), shapes.inputs, strict=True)
    ]
    kinds = [kind for kind in (loss, *metrics) if kind is not None]
    patterns = target_patterns(net, shapes.outputs, kinds)
    targets = declare_targets(builder, patterns, batch, dtype)
    apart = {value.name for value in inputs} if phase == "eval" else set()
    scope = Scope(
        builder, net, values, phase=phase, dtype=dtype, counters=counters, by_sample=apart
    )
    made = scope.run(*inputs)
    check_hints(builder, kept)
    outputs = made if isinstance(made, tuple) else (made,)
    results = trace_results(scope, loss, metrics, (*outputs, *targets)) if kinds else {}
    update_states(builder, own, scope.updated)
    for name in (TICK, DRAWS):
        if name in scope.counters:
            count_calls(builder, scope.counters[name])
    found = own_results(builder, list(results.values()) if kinds else outputs)
    return builder.done(renamed(builder, found, list(results)) if kinds else found)


def trace_results(
    scope: Scope,
    loss: type[Criterion] | None,
    metrics: Sequence[type[Criterion]],
    given: Sequence[Value],
) -> dict[str, Value]:
    """Trace loss and metrics on outputs and targets; gives the values that %loss and the like are
    to be.
    """
    # They have no tensors of their own, and are about the whole batch.
    beside, found = replace(scope, values={}, by_sample=set()), dict[str, Value]()
    if loss is not None:
        found[LOSS] = replace(beside, module=loss, path=LOSS).run(*given)
    for index, kind in enumerate(metrics):
        added, count = run_metric(beside, index, kind, given)
        found |= {metric_sum(index): added, metric_count(index): count}
    return found


def renamed(builder: Builder, values: Sequence[Value], names: Sequence[str]) -> list[Value]:
    """Call results of nodes otherwise; what has one of the names already makes way for it."""
    changed = {value.name: name for value, name in zip(values, names, strict=True)}
    # The other results of a node are called after its first.
    for node in builder.nodes:
        first, *rest = node.outputs
        if first.name in changed:
            changed |= {
                v.name: builder.fresh(v.name.replace(first.name, changed[first.name], 1))
                for v in rest
                if v.name.startswith(f"{first.name}.") and v.name not in changed
            }
    others = [name for name in names if name in builder.names and name not in changed]
    changed |= {name: builder.fresh(name) for name in others}
    builder.names |= set(names)

    def value(v: Value) -> Value:
        return replace(v, name=changed[v.name]) if v.name in changed else v

    for index, node in enumerate(builder.nodes):
        if any(v.name in changed for v in (*node.inputs, *node.outputs)):
            inputs, outputs = tuple(map(value, node.inputs)), tuple(map(value, node.outputs))
            builder.nodes[index] = replace(node, inputs=inputs, outputs=outputs)
    builder.updates = [replace(u, new=value(u.new)) for u in builder.updates]
    return [value(v) for v in values]


def check_hints(builder: Builder, kept: Set[str]) -> None:
    """Raises CompositionError if a module calls a result what programs call their own. kept: what
    the optimizer does.
    """
    for node in builder.nodes:
        for value in node.outputs:
            if other := taken_by(value.name, kept):
                raise CompositionError(
                    f"{node.origin.type} at {node.origin.path} calls a result {value.name}, which "
                    f"is {other}; give another hint"
                )


def taken_by(name: str, kept: Set[str]) -> str:
    """What has a name in programs; empty if nothing. kept: the names of the optimizer's states."""
    if is_reserved(name):
        return OF_PROGRAMS
    return "a state of the optimizer" if name in kept else ""


def graph_name(net: type[Module]) -> str:
    """The network's name as a graph's: lower-case."""
    return net.__name__.lower()


def declare_tensors(
    builder: Builder, net: type[Module], own: NetworkStates, kept: Set[str]
) -> dict[str, Value]:
    """Declare the parameters and the buffers; gives them by their dotted paths. kept: what the
    optimizer calls its own. Raises CompositionError for a path that is a name of programs.
    """
    values = own.values()
    for path in values:
        # A node called like a metric's result makes way for it; a tensor keeps its name.
        other = taken_by(path, kept) or (OF_PROGRAMS if is_of_metric(path) else "")
        if other:
            holder, what = "the network itself", "it"
            if "." in path:
                holder, what = "a module in it", "the module"
            raise CompositionError(
                f"{net!r}: a tensor of {holder} cannot be called {path}, which is {other}; "
                f"give {what} another name"
            )
    builder.layouts += own.layouts
    for state in own.states:
        builder.state(state.value.name, state.value.type, state.members, state.initial)
    return values


def count_calls(builder: Builder, tick: Value) -> None:
    """Let %tick or %draws count the calls, whether they are ok or not."""
    with builder.at(Origin(ROOT, "count of calls", "trace")):
        builder.update(tick, builder.emit("count", tick, hint=f"{tick.name}.next"))


def own_results(builder: Builder, values: Sequence[Value]) -> list[Value]:
    """The values that a graph is to return, copied where their memory cannot be the caller's: what
    is given, a literal, a value that is returned twice, updates a state, or holds others. So no
    pass has to put another value, of another name, in place of one that is returned.
    """
    graph = builder.done(values)
    owners = placed(graph, Memory(graph)).outputs
    return [
        value if owner is not None else copied(builder, value)
        for value, owner in zip(values, owners, strict=True)
    ]


def copied(builder: Builder, value: Value) -> Value:
    """The value in memory of its own."""
    with builder.at(Origin(ROOT, "output", "trace")):
        return builder.emit("copy", value, hint=f"{value.name}.copy")
