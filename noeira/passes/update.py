"""update: the optimizer, one node over the flat parameters, and the count of its updates.

    %grads = pack(…)

becomes

    state %adam.m: f32 @net … state %lr: f32[] = constant(0.001) state %adam.step: i64[]
    %grads = pack(…)
    %ok = finite(%loss)                                                                 by update
    %params.next, %adam.m.next, … = adam(%params, %grads, %lr, %adam.step, %ok, …)      by update
    %adam.step.next = count(%adam.step, %ok)                                            by update
    update %params = %params.next …
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from noeira.errors import VerifyError
from noeira.ir.attributes import filled
from noeira.ir.builder import Builder
from noeira.ir.graph import ROOT, ComputeGraph, Origin, Value
from noeira.ir.op import OPS, op
from noeira.ir.ops.optimizer import Optimizer
from noeira.ir.ranges import ranges_of
from noeira.ir.states import COUNTER, GRADS, LEARNING_RATE, LOSS, OK, STEP, optimizer_state
from noeira.ir.types import Layout, TensorType
from noeira.passes.base import Extends, defined, parameters


@dataclass(frozen=True)
class ApplyOptimizer(Extends):
    """Append the optimizer `op` with its `options` (pairs of attribute and value).

    Weight decay acts on the members of the layout that are marked so; the others have none.
    """

    name: ClassVar[str] = "update"
    op: str = "adam"
    lr: float = 0.001
    options: tuple[tuple[str, Any], ...] = ()
    loss: str = LOSS

    def __call__(self, graph: ComputeGraph) -> ComputeGraph:
        builder = Builder.of(graph)
        params = parameters(graph, self.name).value
        grads, loss = defined(graph, GRADS, self.name), defined(graph, self.loss, self.name)
        scalar = TensorType(params.type.dtype, ())
        with builder.at(Origin(ROOT, f"optimizer {self.op}", self.name)):
            moments = [builder.state(name, params.type) for name in self.moments()]
            lr = builder.state(LEARNING_RATE, scalar, initial=(f"constant({self.lr!r})",))
            step = builder.state(optimizer_state(self.op, STEP), COUNTER)
            ok = builder.emit("finite", loss, hint=OK)
            operands = (params, grads, lr, step, ok, *moments)
            following = builder.emit(
                self.op,
                *operands,
                **self.attrs(graph.layout(params.type.layout or "")),
                hint=tuple(f"{v.name}.next" for v in (params, *moments)),
            )
            counted = builder.emit("count", step, ok, hint=f"{step.name}.next")
        results: tuple[Value, ...] = following if isinstance(following, tuple) else (following,)
        for state, new in zip((params, *moments, step), (*results, counted), strict=True):
            builder.update(state, new)
        return builder.done(graph.outputs)

    def given(self) -> dict[str, Any]:
        """The options by name. Raises VerifyError."""
        if any(not isinstance(pair, tuple) or len(pair) != 2 for pair in self.options):
            raise VerifyError('update: options are pairs such as ["beta1", 0.9]')
        return dict(self.options)

    def attrs(self, layout: Layout) -> dict[str, Any]:
        """The attributes of the optimizer's node over such a layout. Raises VerifyError."""
        options = self.given()
        if options.get("weight_decay"):
            none = (("weight_decay", 0.0),)
            numbers = {member.name: () if member.decay else none for member in layout.members}
            options["ranges"] = ranges_of(layout, numbers)
        return options

    def moments(self) -> tuple[str, ...]:
        """The names of the flat states that the optimizer needs beside the parameters.

        Raises VerifyError.
        """
        rule = op(self.op)
        if not isinstance(rule, Optimizer):
            known = ", ".join(o.name for o in OPS.values() if isinstance(o, Optimizer))
            raise VerifyError(f"update: {self.op} is no optimizer; there are {known}")
        names = rule.kept(filled(rule.name, rule.Attrs, self.given()))
        return tuple(optimizer_state(self.op, name) for name in names)
