"""The backward walk: from cotangents of some values to those of others, each op's own `vjp` on the
way.
"""

from __future__ import annotations

import difflib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from noeira.errors import VerifyError
from noeira.ir.broadcasting import neighbours, repeated_axes
from noeira.ir.builder import Builder
from noeira.ir.graph import ADJOINT, ROOT, Node, Origin, Value
from noeira.ir.orders import IMAGES
from noeira.ir.types import TensorType

# What an op's `vjp` gives: the cotangent of each operand by its name, and nothing for one without;
# of an op with any number of operands, an entry for each of them.
Cotangents = Mapping[str, Value] | tuple[Value | None, ...]


@dataclass(frozen=True)
class Backward:
    """What an op's `vjp` is given: its node, the cotangents of the results, and which operands
    matter.

    flows: a cotangent for each output of the node, None where nothing flows. wanted: whether each
    of its inputs matters. mark: what the names of cotangents begin with.
    """

    builder: Builder
    node: Node
    flows: tuple[Value | None, ...]
    wanted: tuple[bool, ...]
    mark: str = "d"

    # Those that an op always has are most of them: `Any` saves it from asking for each.
    @property
    def inputs(self) -> tuple[Any, ...]:
        """A value for each operand of the op, None for one that is not given."""
        return self.node.arguments(self.node.inputs)

    @property
    def outputs(self) -> tuple[Any, ...]:
        """A value for each result of the op, None for one that is not given."""
        return self.by_result(self.node.outputs)

    @property
    def cotangents(self) -> tuple[Value | None, ...]:
        """The cotangent of each result of the op, None where nothing flows."""
        return self.by_result(self.flows)

    def by_result(self, given: Sequence[Value | None]) -> tuple[Value | None, ...]:
        """What there is for each output, by the results of the op."""
        known = dict(zip(self.node.results, given, strict=True))
        return tuple(map(known.get, self.node.op.results))

    @property
    def cotangent(self) -> Value:
        """The only cotangent there is: that of an op's one result that is not saved.

        Raises VerifyError if there are several.
        """
        given = [cotangent for cotangent in self.flows if cotangent is not None]
        if len(given) != 1:
            raise VerifyError(
                f"vjp of {self.node.op.name}: {len(given)} of its results have a cotangent: "
                "write back.cotangents"
            )
        return given[0]

    def wants(self, operand: str) -> bool:
        """Whether the operand of that name is there and its cotangent matters."""
        names = self.node.op.operands
        if operand not in names:
            known = ", ".join(names)
            raise VerifyError(f"{self.node.op.name} has no operand {operand!r}; it has {known}")
        return dict(zip(self.node.operands, self.wanted, strict=True)).get(operand, False)

    def emit(self, op: str, *values: Value, **attrs: Any) -> Any:
        """Emit one node; gives its result, or the tuple of its results.

        What turns out to be the cotangent of an operand %x is called %d.x by the walk (d its mark).
        """
        if any(value is None for value in values):
            raise VerifyError(self.nothing_flows(op, values))
        hint = f"{self.mark}.{self.node.outputs[0].name}.{op}"
        return self.builder.emit(op, *values, hint=hint, **attrs)

    def nothing_flows(self, op: str, values: tuple[Value | None, ...]) -> str:
        """What is wrong with emitting an op of something that is not there."""
        rule = self.node.op
        places = ", ".join(str(i) for i, value in enumerate(values) if value is None)
        named = zip(self.node.results, self.flows, strict=True)
        without = [name or "the first" for name, one in named if one is None]
        why = "an operand that is not given is None too"
        if without:
            why = f"nothing flows back into {' and '.join(without)}, whose cotangent is None"
        return (
            f"vjp of {rule.name}: operand {places} of {op} is None; {why}: see what is there "
            "by `back.cotangents` and `back.wants` before it is emitted"
        )


def gradients(
    builder: Builder, seeds: Mapping[str, Value], wanted: Iterable[Value], by: str, mark: str = "d"
) -> dict[str, Value]:
    """Emit the cotangents of `wanted`, given cotangents of some values; what has none is left out.

    Walks the nodes that the builder has so far in reverse, with a table of cotangents. What a node
    of group `0` gives rise to is stamped `0~`; all of it lies in the region that the builder is at,
    whatever that of the node is. by: the pass that asks, stamped on what is emitted.
    mark: of names: the cotangent of %x is %d.x.
    Raises VerifyError if an op on the way has no gradient, or a seed is none of a value there is.
    """
    check_seeds(builder, seeds)
    wanted = list(wanted)
    nodes = tuple(builder.nodes)
    needed = {v.name for v in wanted}
    for node in nodes:
        if any(v.name in needed for v in node.inputs):
            needed |= {v.name for v in node.outputs}
    table = Table(builder, by, seeds, mark)
    for node in reversed(nodes):
        wants = tuple(v.name in needed for v in node.inputs)
        cotangents = tuple(map(table.total, node.outputs)) if any(wants) else ()
        if not any(cotangents):
            continue
        check_saved(node, cotangents)
        start = len(builder.nodes)
        with builder.at(Origin(node.origin.path, node.origin.type, by), adjoint(node.group)):
            entries = entries_of(Backward(builder, node, cotangents, wants, mark))
        made = builder.rename(start, names_of(node, entries, mark))
        table.place(builder.nodes[start:])
        for value, entry in zip(node.inputs, entries, strict=True):
            if entry is not None and value.name in needed:
                table.parts[value.name].append(made.get(entry.name, entry))
    found = {v.name: table.total(v) for v in wanted}
    return {name: value for name, value in found.items() if value is not None}


def check_seeds(builder: Builder, seeds: Mapping[str, Value]) -> None:
    """Raises VerifyError for a cotangent of something that the builder has not, or of another type
    than that.
    """
    known = builder.values()
    for name, seed in seeds.items():
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"; did you mean %{near[0]}?" if near else ""
            raise VerifyError(f"gradients: a seed for %{name}, which there is not{hint}")
        check_cotangent("the seeds of gradients", f"%{name}", known[name], seed)


def adjoint(group: str) -> str:
    """The stamp of what the gradient of a group's node gives rise to."""
    return group + ADJOINT if group else ""


class Table:
    """The cotangents of each value so far, in the order in which its readers are met.

    home: the group of the node that makes a value.
    """

    def __init__(self, builder: Builder, by: str, seeds: Mapping[str, Value], mark: str) -> None:
        self.builder, self.by, self.mark = builder, by, mark
        self.parts = defaultdict[str, list[Value]](list)
        self.home: dict[str, str] = {}
        for name, seed in seeds.items():
            self.parts[name].append(seed)
        self.place(builder.nodes)

    def place(self, nodes: Iterable[Node]) -> None:
        """Note the groups of nodes."""
        self.home |= {v.name: node.group for node in nodes for v in node.outputs}

    def total(self, value: Value) -> Value | None:
        """The cotangent of a value: the sum of its parts, or None if nothing flows."""
        parts = self.parts.get(value.name)
        if parts is None:
            return None
        found, *rest = parts
        if rest:
            start = len(self.builder.nodes)
            origin = Origin(ROOT, f"sum of the gradients of {value}", self.by)
            with self.builder.at(origin, self.group_of_sum(value, parts)):
                for part in rest:
                    hint = f"{self.mark}.{value.name}.sum"
                    found = self.builder.emit("add", found, part, hint=hint)
            self.place(self.builder.nodes[start:])
            parts[:] = [found]
        return found

    def group_of_sum(self, value: Value, parts: list[Value]) -> str:
        """The adjoint group of the value, if one of the parts was made there, or the one group that
        made all parts, or none: nobody asked for kernels across groups.
        """
        stamps = {self.home.get(part.name, "") for part in parts}
        own = adjoint(self.home.get(value.name, ""))
        return own if own in stamps else stamps.pop() if len(stamps) == 1 else ""


def entries_of(back: Backward) -> tuple[Value | None, ...]:
    """What an op's `vjp` gives, as an entry for each input.

    Raises VerifyError that shows the node, and so whose it is, if that is not to be had.
    """
    node = back.node
    try:
        return by_operand(node, node.op.vjp(node.attrs, back))
    except VerifyError as error:
        raise VerifyError(f"{error}\nwhile differentiating {node}") from error


def names_of(node: Node, entries: Iterable[Value | None], mark: str) -> dict[str, str]:
    """What the cotangent of each operand is to be called, by the name it was emitted under."""
    pairs = zip(node.inputs, entries, strict=True)
    return {entry.name: f"{mark}.{value.name}" for value, entry in pairs if entry is not None}


def check_saved(node: Node, cotangents: tuple[Value | None, ...]) -> None:
    """Raises VerifyError if something flows back into a result that only the op's own gradient may
    read.
    """
    for name, value, cotangent in zip(node.results, node.outputs, cotangents, strict=True):
        if cotangent is not None and name in node.op.saved:
            raise VerifyError(
                f"{value}, {name} of {node.op.name}, is saved for the gradient of "
                f"{node.op.name} alone: nothing that leads to a loss may read it"
            )


def by_operand(node: Node, given: Any) -> tuple[Value | None, ...]:
    """What an op's `vjp` gave, as an entry for each input. Raises VerifyError for anything else."""
    name, present = node.op.name, node.operands
    if isinstance(given, Mapping):
        single = [operand for operand in present if present.count(operand) == 1]
        for operand in given:
            if operand not in single:
                known = ", ".join(single) or "no operands"
                raise VerifyError(
                    f"vjp of {name} gave a cotangent for {operand!r}; the node has {known}"
                )
        entries = tuple(map(given.get, present))
    elif isinstance(given, tuple):
        entries = given
        if len(entries) != len(node.inputs):
            raise VerifyError(
                f"vjp of {name} gave {len(entries)} cotangents for {len(node.inputs)} inputs"
            )
    else:
        raise VerifyError(
            f"vjp of {name} must give a dictionary, the cotangent of each operand by its name, "
            f"not {given!r}"
        )
    for operand, value, entry in zip(present, node.inputs, entries, strict=True):
        if entry is not None:
            label = operand if present.count(operand) == 1 else str(value)
            check_cotangent(f"vjp of {name}", label, value, entry)
    return entries


def check_cotangent(giver: str, operand: str, value: Value, cotangent: Any) -> None:
    """Raises VerifyError if something is not a value of the operand's own type."""
    if not isinstance(cotangent, Value):
        raise VerifyError(
            f"{giver} gave {cotangent!r} for {operand}: it must be what back.emit gave"
        )
    wanted = TensorType(value.type.dtype, value.type.shape)
    if replace(cotangent.type, layout=None, order="") != wanted:
        raise VerifyError(f"{giver} gave {cotangent.type} for {operand}, which is {wanted}")


def reduce_to(back: Backward, full: Value, shape: tuple[int, ...], scale: float = 1.0) -> Value:
    """`scale` times the sum of a cotangent over the axes along which an operand of that shape was
    repeated, over each run of neighbours by itself.
    """
    axes = repeated_axes(shape, full.type.shape)
    runs = neighbours(axes, full.type.shape)
    # All but the channels of images lie side by side in memory.
    if len(full.type.shape) in IMAGES and axes == (0, *range(2, len(full.type.shape))):
        runs = [axes]
    if not runs and scale != 1.0:
        full = back.emit("scale", full, factor=scale)
    # The last run first, so that the numbers of the axes before it stay.
    for run in reversed(runs):
        axes = () if len(run) == len(full.type.shape) else run
        full = back.emit("sum", full, axes=axes, scale=scale)
        scale = 1.0
    return full if full.type.shape == shape else back.emit("reshape", full, shape=shape)
