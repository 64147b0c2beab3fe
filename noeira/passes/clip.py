"""clip: gradients that are too large are made smaller before the optimizer reads them.

    %grads = pack(…)

becomes, by the global norm,

    %grads = pack(…)
    %grad_norm, %clip = clip_norm(%grads) {max_norm = 1.0}     by clip
    return %loss, %grad_norm

where %clip is a factor that the optimizer multiplies the gradients by. An op that gives the
gradients themselves anew makes them %grads.clipped.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from noeira.errors import VerifyError
from noeira.ir.builder import Builder
from noeira.ir.graph import ROOT, ComputeGraph, Origin, Value
from noeira.ir.groups import Groups, numbers_by_member
from noeira.ir.layouts import Layout
from noeira.ir.op import Op, op
from noeira.ir.ranges import ranges_of
from noeira.ir.states import CLIP, CLIPPED, GRAD_NORM
from noeira.passes.base import Extends, parameters
from noeira.passes.shared import newest_gradients

# What the results of an op that clips become, by their names there.
RESULTS = {"norm": GRAD_NORM, "scale": CLIP, "clipped": CLIPPED}


@dataclass(frozen=True)
class Clip(Extends):
    """Append the op that clips, with its `options` (pairs of attribute and value).

    groups: of the parameters; those that are frozen have no part in it.
    """

    name: ClassVar[str] = "clip"
    op: str = "clip_norm"
    options: tuple[tuple[str, Any], ...] = ()
    groups: Groups = ()

    def __call__(self, graph: ComputeGraph) -> ComputeGraph:
        builder, rule = Builder.of(graph), op(self.op)
        params = parameters(graph, self.name).value
        given = {"params": params, "grads": newest_gradients(graph, self.name)}
        if not (given.keys() >= set(rule.operands) and RESULTS.keys() >= set(rule.results)):
            raise VerifyError(f"clip: {self.op} is no op that clips gradients")
        operands = (given[name] for name in rule.operands)
        attrs = self.attrs(rule, graph.layout(params.type.layout or ""))
        hint = tuple(RESULTS[name] for name in rule.results)
        with builder.at(Origin(ROOT, f"clipping by {self.op}", self.name)):
            made = builder.emit(self.op, *operands, **attrs, hint=hint)
        results: tuple[Value, ...] = made if isinstance(made, tuple) else (made,)
        told = [value for value in results if value.name == GRAD_NORM]
        return builder.done((*graph.outputs, *told))

    def attrs(self, rule: Op, layout: Layout) -> dict[str, Any]:
        """The attributes of the node; an op that looks at each tensor apart has them as ranges."""
        options = dict(self.options)
        if "ranges" in rule.Attrs.__dataclass_fields__:
            numbers = numbers_by_member(layout, self.groups, decays=False)
            options["ranges"] = ranges_of(layout, dict.fromkeys(numbers, ()), apart=True)
        return options

    @property
    def tells_norm(self) -> bool:
        """Whether there is a norm of all gradients to report."""
        return "norm" in op(self.op).results
