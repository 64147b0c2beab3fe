"""A builder at a place in the module tree: what a module's `trace` emits its nodes through."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from noeira.errors import CompositionError, FusionError
from noeira.ir.graph import ROOT, Builder, Origin, Value
from noeira.nn.core.parameters import joined
from noeira.nn.core.promise import (
    check_child,
    check_inputs,
    check_operands,
    check_outputs,
    check_rows,
)

if TYPE_CHECKING:
    from noeira.nn.core.module import Module


@dataclass(frozen=True)
class Scope:
    """Where a module is traced.

    values: the parameters and states of the whole network by their dotted paths.
    path, module: the place in the tree, and the type there. group: the stamp of the fused type
    around it.
    phase: `train` or `eval`, decided when tracing.
    caller: the type whose trace runs this one, if there is one. inputs: what the module is run on.
    """

    builder: Builder
    module: type[Module]
    values: Mapping[str, Value]
    path: str = ""
    group: str = ""
    phase: Literal["train", "eval"] = "train"
    caller: type[Module] | None = None
    inputs: tuple[Value, ...] = ()

    def emit(self, op: str, *inputs: Value, hint: str | tuple[str, ...] = "", **attrs: Any) -> Any:
        """Emit one node, stamped with this place; its results are called path.op unless `hint` says
        otherwise.

        Gives the result, or the tuple of results. Raises ShapeError or DtypeError if the operands
        do not go together, CompositionError if one is no value or if the op would mix samples.
        """
        check_operands(self, op, inputs)
        with self.builder.at(Origin(self.path or ROOT, repr(self.module), "trace"), self.group):
            made = self.builder.emit(op, *inputs, hint=hint or joined(self.path, op), **attrs)
        check_rows(self, self.builder.nodes[-1])
        return made

    def param(self, name: str) -> Value:
        """The parameter or state `name` of the module here.

        Raises CompositionError that lists what there is.
        """
        found = self.values.get(joined(self.path, name))
        if found is None:
            raise self.no_param(name)
        return found

    def no_param(self, name: str) -> CompositionError:
        """The error for a tensor that the module does not have."""
        tensors = {**self.module.own_params, **self.module.own_states}
        if name in tensors and not tensors[name].exists(self.module):
            return CompositionError(str(tensors[name].absent(self.module)))
        known = ", ".join(n for n, tensor in tensors.items() if tensor.exists(self.module))
        return CompositionError(
            f"{self.module!r} has no parameter {name}; it has {known or 'none'}"
        )

    def child(self, name: str, module: type[Module]) -> Scope:
        """The place of a child; a child without a name is at the place of its parent.

        Raises CompositionError if `children` does not list it.
        """
        check_child(self, name, module)
        path = joined(self.path, name)
        return replace(self, path=path, module=module, caller=self.module, inputs=())

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
        """Trace the module here; gives its output or the tuple of its outputs.

        Raises CompositionError if inputs or outputs are not what the signature says.
        """
        check_inputs(self, inputs)
        made = self.module.trace(replace(self, inputs=inputs), *inputs)
        check_outputs(self, inputs, made)
        return made
