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
from dataclasses import dataclass
from typing import ClassVar

from noeira.errors import VerifyError
from noeira.ir.graph import ADJOINT, ROOT, Builder, ComputeGraph, Origin, Value
from noeira.passes.base import Pass, appended

GRADS = "grads"


def gradients(
    builder: Builder, seeds: Mapping[str, Value], wanted: Iterable[Value]
) -> dict[str, Value]:
    """Emit the cotangents of `wanted`, given cotangents of some values; what has none is left out.

    Walks the builder's nodes in reverse with a table of cotangents. What a node of group `0` gives rise to is
    stamped `0~`; sums of several cotangents, in the order in which their readers are met, belong to no group.
    """
    wanted = list(wanted)
    nodes = tuple(builder.nodes)
    needed = {v.name for v in wanted}
    for node in nodes:
        if any(v.name in needed for v in node.inputs):
            needed |= {v.name for v in node.outputs}
    table: dict[str, list[Value]] = {name: [seed] for name, seed in seeds.items()}

    def total(value: Value) -> Value | None:
        parts = table.get(value.name, [])
        while len(parts) > 1:
            with builder.at(Origin(ROOT, f"sum of the gradients of {value}", "vjp")):
                first = builder.emit("add", parts[0], parts[1], hint=f"d.{value.name}.sum")
            parts = [first, *parts[2:]]
        table[value.name] = parts
        return parts[0] if parts else None

    for node in reversed(nodes):
        cotangents = tuple(total(v) if v.name in table else None for v in node.outputs)
        wants = tuple(v.name in needed for v in node.inputs)
        if not any(wants) or not any(cotangents):
            continue
        group = node.group + ADJOINT if node.group else ""
        with builder.at(Origin(node.origin.path, node.origin.type, "vjp"), group):
            given = node.op.vjp(builder, node, cotangents, wants)
        for value, cotangent in zip(node.inputs, given, strict=True):
            if cotangent is not None and value.name in needed:
                table.setdefault(value.name, []).append(cotangent)
    found = {v.name: total(v) for v in wanted}
    return {name: value for name, value in found.items() if value is not None}


@dataclass(frozen=True)
class Vjp(Pass):
    """Gradients of `loss` in every parameter, as the value %grads."""

    name: ClassVar[str] = "vjp"
    loss: str = "loss"

    def __call__(self, graph: ComputeGraph) -> ComputeGraph:
        builder = Builder.of(graph)
        loss = next((v for v in graph.outputs if v.name == self.loss), None)
        if loss is None:
            raise VerifyError(f"vjp: the graph does not return %{self.loss}")
        params = graph.state("params")
        with builder.at(Origin(ROOT, "gradient of the loss", "vjp")):
            one = builder.emit("constant", value=1.0, dtype=loss.type.dtype, hint=f"d.{self.loss}")
        found = gradients(builder, {loss.name: one}, params.members)
        given = {v.name for v in graph.given()}
        with builder.at(Origin(ROOT, "gradients side by side", "vjp")):
            self.pack(builder, graph, found, given)
        return builder.done(graph.outputs)

    def pack(
        self, builder: Builder, graph: ComputeGraph, found: dict[str, Value], given: set[str]
    ) -> None:
        """Emit %grads: every operand of a pack is a value of its own that nothing else placed."""
        state = graph.state("params")
        layout = graph.layout(state.value.type.layout or "")
        views = {v.name for n in builder.nodes if not n.op.launches for v in n.outputs} | given
        parts, used = list[Value](), set[str]()
        for member, place in zip(state.members, layout.members, strict=True):
            part = found.get(member.name)
            hint = f"d.{member.name}"
            if part is None:
                zero = builder.emit("constant", value=0.0, dtype=member.type.dtype, hint="zero")
                part = builder.emit("broadcast", zero, shape=place.shape, hint=hint)
            elif part.name in used or part.name in views:
                part = builder.emit("copy", part, hint=f"{hint}.copy")
            used.add(part.name)
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
