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

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from noeira.errors import VerifyError
from noeira.ir.builder import Builder
from noeira.ir.gradients import gradients
from noeira.ir.graph import ROOT, ComputeGraph, Origin, Value
from noeira.ir.groups import Groups, trained
from noeira.ir.layouts import Layout
from noeira.ir.states import GRADS, LOSS
from noeira.passes.base import Extends, parameters


@dataclass(frozen=True)
class Vjp(Extends):
    """Gradients of `loss` in every parameter, as the value %grads; those that are frozen in one of
    the `groups` have gradients of zero.
    """

    name: ClassVar[str] = "vjp"
    loss: str = LOSS
    groups: Groups = ()

    def __call__(self, graph: ComputeGraph) -> ComputeGraph:
        builder = Builder.of(graph)
        loss = next((v for v in graph.outputs if v.name == self.loss), None)
        if loss is None:
            raise VerifyError(f"vjp: the graph does not return %{self.loss}")
        if loss.type.shape or not loss.type.is_float:
            raise VerifyError(f"vjp: {loss} is {loss.type}; a loss is a single float")
        params = parameters(graph, self.name)
        with builder.at(Origin(ROOT, "gradient of the loss", self.name)):
            one = builder.emit("constant", value=1.0, dtype=loss.type.dtype, hint=f"d.{self.loss}")
        wanted = trained(params.members, self.groups)
        found = gradients(builder, {loss.name: one}, wanted, self.name)
        layout = graph.layout(params.value.type.layout or "")
        with builder.at(Origin(ROOT, "gradients side by side", self.name)):
            self.pack(builder, layout, wanted, found)
        return builder.done(graph.outputs)

    def pack(
        self, builder: Builder, layout: Layout, wanted: Sequence[Value], found: Mapping[str, Value]
    ) -> None:
        """Emit %grads; what does not lead to the loss has gradients of zero, and so have the gaps
        between members, and members that are not wanted.
        """
        parts = list[Value]()
        for member in wanted:
            part = found.get(member.name)
            if part is None:
                zero = builder.emit("constant", value=0.0, dtype=member.type.dtype, hint="zero")
                about = {"shape": member.type.shape, "order": member.type.order}
                part = builder.emit("broadcast", zero, **about, hint=f"d.{member.name}")
            parts.append(part)
        orders = tuple(member.type.order for member in wanted)
        builder.emit(
            "pack",
            *parts,
            layout=layout.name,
            size=layout.size,
            offsets=tuple(layout.member(member.name).offset for member in wanted),
            orders=orders if any(orders) else (),
            hint=GRADS,
        )
