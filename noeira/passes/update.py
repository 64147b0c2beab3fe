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
from noeira.ir.groups import Groups, numbers_by_member
from noeira.ir.layouts import Layout
from noeira.ir.op import OPS, op
from noeira.ir.ops.optimizer import Optimizer
from noeira.ir.ranges import ranges_of
from noeira.ir.states import CLIP, GRAD_NORM, LOSS, OK, RATE, optimizer_state
from noeira.passes.base import Extends, defined, parameters
from noeira.passes.shared import learning_rate, made, newest_gradients, updates_made


@dataclass(frozen=True)
class ApplyOptimizer(Extends):
    """Append the optimizer `op` with its `options` (pairs of attribute and value).

    Weight decay acts on the members of the layout that are marked so; the others have none. groups:
    what some parameters have of their own. What `clip` and `anneal` gave, the optimizer reads.
    """

    name: ClassVar[str] = "update"
    op: str = "adam"
    lr: float = 0.001
    options: tuple[tuple[str, Any], ...] = ()
    loss: str = LOSS
    groups: Groups = ()

    def __call__(self, graph: ComputeGraph) -> ComputeGraph:
        builder = Builder.of(graph)
        params = parameters(graph, self.name).value
        grads = newest_gradients(graph, self.name)
        norm, clip = made(graph, GRAD_NORM), made(graph, CLIP)
        watched = [defined(graph, self.loss, self.name), *([] if norm is None else [norm])]
        with builder.at(Origin(ROOT, f"optimizer {self.op}", self.name)):
            moments = [builder.state(name, params.type) for name in self.moments()]
            lr = learning_rate(builder, params.type.dtype, self.lr)
            step = updates_made(builder, self.op)
            ok = builder.emit("finite", *watched, hint=OK)
            operands = (params, grads, made(graph, RATE) or lr, step, ok, *moments)
            following = builder.emit(
                self.op,
                *operands,
                *([] if clip is None else [clip]),
                **self.attrs(graph.layout(params.type.layout or ""), clip),
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

    def attrs(self, layout: Layout, clip: Value | None = None) -> dict[str, Any]:
        """The attributes of the optimizer's node over such a layout. clip: the factor on gradients,
        or one for each tensor that is trained. Raises VerifyError.
        """
        options = self.given()
        numbers = numbers_by_member(layout, self.groups, bool(options.get("weight_decay")))
        if not numbers:
            raise VerifyError("update: every parameter is frozen: nothing would be trained")
        apart = clip is not None and bool(clip.type.shape)
        if apart or any(numbers.values()) or len(numbers) < len(layout.members):
            options["ranges"] = ranges_of(layout, numbers, apart)
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
