"""vjp: append the backward pass, and pack the gradients into one flat value.

    %loss, %lse = cross_entropy(%z, %target)

becomes

    %loss, %lse = cross_entropy(%z, %target)
    %one = constant() {value = 1.0}                                  by vjp
    %d.z = cross_entropy_grad(%z, %target, %lse, %one)               by vjp
    …
    %grads = pack(%d.0.weight, %d.0.bias)                            by vjp
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from noeira.errors import VerifyError
from noeira.ir.graph import ADJOINT, ROOT, Builder, ComputeGraph, Node, Origin, State, Value
from noeira.ir.states import GRADS, LOSS
from noeira.ir.types import TensorType
from noeira.passes.base import Pass, appended, parameters


def gradients(
    builder: Builder, seeds: Mapping[str, Value], wanted: Iterable[Value]
) -> dict[str, Value]:
    """Emit the cotangents of `wanted`, given cotangents of some values; what has none is left out.

    Walks the builder's nodes in reverse with a table of cotangents. What a node of group `0` gives
    rise to is stamped `0~`; sums of several cotangents, in the order in which their readers are
    met, belong to no group.
    """
    wanted = list(wanted)
    nodes = tuple(builder.nodes)
    needed = {v.name for v in wanted}
    for node in nodes:
        if any(v.name in needed for v in node.inputs):
            needed |= {v.name for v in node.outputs}
    table: dict[str, list[Value]] = {name: [seed] for name, seed in seeds.items()}

    def total(value: Value) -> Value | None:
        if value.name not in table:
            return None
        found, *rest = table[value.name]
        with builder.at(Origin(ROOT, f"sum of the gradients of {value}", "vjp")):
            for part in rest:
                found = builder.emit("add", found, part, hint=f"d.{value.name}.sum")
        table[value.name] = [found]
        return found

    for node in reversed(nodes):
        cotangents = tuple(map(total, node.outputs))
        wants = tuple(v.name in needed for v in node.inputs)
        if not any(wants) or not any(cotangents):
            continue
        group = node.group + ADJOINT if node.group else ""
        with builder.at(Origin(node.origin.path, node.origin.type, "vjp"), group):
            given = node.op.vjp(builder, node, cotangents, wants)
        check_cotangents(node, given)
        for value, cotangent in zip(node.inputs, given, strict=True):
            if cotangent is not None and value.name in needed:
                table.setdefault(value.name, []).append(cotangent)
    found = {v.name: total(v) for v in wanted}
    return {name: value for name, value in found.items() if value is not None}


def check_cotangents(node: Node, given: Any) -> None:
    """Raises VerifyError if what an op's `vjp` gave is not a cotangent or None for each input."""
    name, count = node.op.name, len(node.inputs)
    if not isinstance(given, tuple):
        raise VerifyError(f"vjp of {name} must give a tuple, one entry an input, not {given}")
    if len(given) != count:
        raise VerifyError(f"vjp of {name} gave {len(given)} cotangents for {count} inputs")
    for index, (value, cotangent) in enumerate(zip(node.inputs, given, strict=True)):
        if cotangent is None:
            continue
        operand = (*node.op.operands, *map(str, node.inputs[len(node.op.operands) :]))[index]
        if not isinstance(cotangent, Value):
            raise VerifyError(
                f"vjp of {name} gave {cotangent!r} for {operand}: it must be what builder.emit "
                "gave, or None"
            )
        wanted = TensorType(value.type.dtype, value.type.shape)
        if replace(cotangent.type, layout=None) != wanted:
            raise VerifyError(
                f"vjp of {name} gave {cotangent.type} for {operand}, which is {wanted}"
            )


@dataclass(frozen=True)
class Vjp(Pass):
    """Gradients of `loss` in every parameter, as the value %grads."""

    name: ClassVar[str] = "vjp"
    loss: str = LOSS

    def __call__(self, graph: ComputeGraph) -> ComputeGraph:
        builder = Builder.of(graph)
        loss = next((v for v in graph.outputs if v.name == self.loss), None)
        if loss is None:
            raise VerifyError(f"vjp: the graph does not return %{self.loss}")
        if loss.type.shape or not loss.type.is_float:
            raise VerifyError(f"vjp: {loss} is {loss.type}; a loss is a single float")
        params = parameters(graph, self.name)
        with builder.at(Origin(ROOT, "gradient of the loss", "vjp")):
            one = builder.emit("constant", value=1.0, dtype=loss.type.dtype, hint=f"d.{self.loss}")
        found = gradients(builder, {loss.name: one}, params.members)
        with builder.at(Origin(ROOT, "gradients side by side", "vjp")):
            self.pack(builder, graph, params, found)
        return builder.done(graph.outputs)

    def pack(
        self, builder: Builder, graph: ComputeGraph, params: State, found: dict[str, Value]
    ) -> None:
        """Emit %grads: every operand of a pack is a value of its own that nothing else placed."""
        layout = graph.layout(params.value.type.layout or "")
        free = {v.name for n in builder.nodes if n.op.launches for v in n.outputs}
        parts = list[Value]()
        for member in params.members:
            part = found.get(member.name)
            hint = f"d.{member.name}"
            if part is None:
                zero = builder.emit("constant", value=0.0, dtype=member.type.dtype, hint="zero")
                part = builder.emit("broadcast", zero, shape=member.type.shape, hint=hint)
            elif part.name not in free:
                part = builder.emit("copy", part, hint=f"{hint}.copy")
            free.discard(part.name)
            parts.append(part)
        builder.emit(
            "pack",
            *parts,
            layout=layout.name,
            size=layout.size,
            offsets=tuple(m.offset for m in layout.members),
            hint=GRADS,
        )

    def undo(self, graph: ComputeGraph) -> ComputeGraph:
        return appended(graph, self.name)
