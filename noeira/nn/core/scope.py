"""A builder at a place in the module tree: what a module's `trace` emits its nodes through."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from noeira.errors import FusionError
from noeira.ir.graph import ROOT, Builder, Origin, Value
from noeira.nn.core.parameters import joined

if TYPE_CHECKING:
    from noeira.nn.core.module import Module


@dataclass(frozen=True)
class Scope:
    """Where a module is traced.

    values: the parameters and states of the whole network by their dotted paths.
    path, module: the place in the tree, and the type there. group: the stamp of the fused type
    around it.
    phase: `train` or `eval`, decided when tracing.
    """

    builder: Builder
    module: type[Module]
    values: Mapping[str, Value]
    path: str = ""
    group: str = ""
    phase: Literal["train", "eval"] = "train"

    def emit(self, op: str, *inputs: Value, hint: str | tuple[str, ...] = "", **attrs: Any) -> Any:
        """Emit one node, stamped with this place; its results are called path.op unless `hint` says
        otherwise.

        Gives the result, or the tuple of results. Raises ShapeError or DtypeError if the operands
        do not go together.
        """
        with self.builder.at(Origin(self.path or ROOT, repr(self.module), "trace"), self.group):
            return self.builder.emit(op, *inputs, hint=hint or joined(self.path, op), **attrs)

    def param(self, name: str) -> Value:
        """The parameter or state `name` of the module here."""
        return self.values[joined(self.path, name)]

    def child(self, name: str, module: type[Module]) -> Scope:
        """The place of a child; a child without a name is at the place of its parent."""
        return replace(self, path=joined(self.path, name), module=module)

    def fused(self) -> Scope:
        """This place as a fused type, whose nodes are to be one kernel.

        Raises FusionError inside another one.
        """
        if self.group:
            raise FusionError(
                f"{self.module!r} is inside another fused type: a kernel has no kernels inside"
            )
        group = self.path or ROOT
        self.builder.group(group, repr(self.module))
        return replace(self, group=group)

    def run(self, *inputs: Value) -> Any:
        """Trace the module here."""
        return self.module.trace(self, *inputs)
