"""A builder at a place in the module tree: what a module's `trace` emits its nodes through."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from noeira.errors import FusionError
from noeira.ir.builder import Builder
from noeira.ir.graph import ROOT, Origin, Value
from noeira.ir.random import EVALUATION_STREAM
from noeira.ir.states import COUNTER, DRAWS, SEED, TICK
from noeira.nn.core.arithmetic import arithmetic
from noeira.nn.core.binding import brief
from noeira.nn.core.names import no_param, owner_of
from noeira.nn.core.parameters import joined
from noeira.nn.core.promise import (
    check_apart,
    check_child,
    check_inputs,
    check_operands,
    check_rows,
    check_update,
    checked_outputs,
)

if TYPE_CHECKING:
    from noeira.nn.core.module import Module


@dataclass(frozen=True)
class Scope:
    """Where a module is traced.

    values: the parameters and buffers of the whole network by their dotted paths.
    path, module: the place in the tree, and the type there. home: the place whose tensors it has,
    if that is another one. group: the stamp of the fused type around it. region: that of the type
    around it that keeps nothing for the backward pass.
    phase: `train` or `eval`, decided when tracing. dtype: that of the network.
    caller: the type whose trace runs this one, if there is one. inputs: what the module is run on.
    updated: the new values of buffers, by their dotted paths. streams: the numbers of the streams
    of random numbers. counters: %seed and the count of calls that they follow from, as far as they
    are declared. by_sample: in evaluation, what follows from the network's inputs: each row from
    one sample. All places of one trace share these four.
    """

    builder: Builder
    module: type[Module]
    values: Mapping[str, Value]
    path: str = ""
    group: str = ""
    region: str = ""
    phase: Literal["train", "eval"] = "train"
    dtype: str = "f32"
    caller: type[Module] | None = None
    inputs: tuple[Value, ...] = ()
    updated: dict[str, Value] = field(default_factory=dict)
    streams: Iterator[int] = field(default_factory=itertools.count)
    counters: dict[str, Value] = field(default_factory=dict)
    by_sample: set[str] = field(default_factory=set)
    home: str | None = None

    @property
    def tensors(self) -> str:
        """The place whose parameters and buffers it has."""
        return self.path if self.home is None else self.home

    @property
    def type_text(self) -> str:
        """The type here, as its nodes say it."""
        return self.module.remembered("_brief", lambda: brief(self.module))

    def emit(self, op: str, *inputs: Value, hint: str = "", **attrs: Any) -> Any:
        """Emit one node, stamped with this place; its result is called path.op, or path.hint, and
        further results by their own names after it: path.norm, path.norm.mean.

        Gives the result, or the tuple of results. Raises ShapeError or DtypeError if the operands
        do not go together, CompositionError if one is no value or if the op would mix samples.
        """
        check_operands(self, op, inputs)
        origin = Origin(self.path or ROOT, self.type_text, "trace")
        with self.builder.at(origin, self.group, self.region):
            made = self.builder.emit(op, *inputs, hint=joined(self.path, hint or op), **attrs)
        node = self.builder.nodes[-1]
        check_rows(self, node)
        if any(value.name in self.by_sample for value in node.inputs):
            check_apart(self, node)
            self.by_sample.update(value.name for value in node.outputs)
        return made

    def param(self, name: str) -> Value:
        """The parameter or buffer `name` of the module here.

        Raises CompositionError that lists what there is.
        """
        found = self.values.get(joined(self.tensors, name))
        if found is None:
            raise no_param(self.module, name)
        return found

    def update(self, name: str, new: Value) -> None:
        """Let the buffer `name` of the module here be `new` from the next step on, if this one is
        ok. In this step it has the value that `param` gives throughout.

        In a fused type, what `new` is made of is part of its kernel, if that takes it. Where the
        module has the tensors of another place, nothing happens: they are updated there.
        Raises CompositionError if there is no such buffer, or it cannot become this.
        """
        if self.home is None:
            check_update(self, name, new)
            self.updated[joined(self.path, name)] = new

    def random(self) -> tuple[Value, Value, Value]:
        """What random numbers follow from: the seed, the tick, and the number of a stream that is
        this call's alone, all i64[]. Each step, and each call of an evaluation, has another tick,
        and so other numbers.
        """
        training = self.phase == "train"
        seed, tick = (self.counter(name) for name in (SEED, TICK if training else DRAWS))
        number = float(next(self.streams) + (0 if training else EVALUATION_STREAM))
        stream = self.emit("constant", value=number, dtype="i64", hint="stream")
        return seed, tick, stream

    def counter(self, name: str) -> Value:
        """The state of that name, a whole number; declared when it is first asked for."""
        if name not in self.counters:
            self.counters[name] = self.builder.state(name, COUNTER)
        return self.counters[name]

    def child(self, name: str, module: type[Module]) -> Scope:
        """The place of a child; a child without a name is at the place of its parent.

        Raises CompositionError if `children` does not list it.
        """
        check_child(self, name, module)
        home = None if self.home is None else joined(self.home, name)
        return self.inside(name, module, home)

    def inside(self, name: str, module: type[Module], home: str | None) -> Scope:
        """A place in this one."""
        path = joined(self.path, name)
        return replace(self, path=path, module=module, caller=self.module, inputs=(), home=home)

    def sharing(self, name: str, module: type[Module], owner: str) -> Scope:
        """A place for a module that has the parameters and buffers of another one: of that called
        `owner` in the module here, or else in the nearest around it that has one with such tensors.

        Raises CompositionError if there is none.
        """
        return self.inside(name, module, owner_of(self, name, module, owner))

    def fused(self) -> Scope:
        """This place as a fused type, whose nodes are to be one kernel.

        Raises FusionError inside another one.
        """
        if self.group:
            raise FusionError(
                f"{self.module!r} is inside another fused type: a kernel has no kernels inside"
            )
        return replace(self, group=self.builder.group(self.path or ROOT, repr(self.module)))

    def checkpointed(self) -> Scope:
        """This place as a type that keeps nothing of what is inside for the backward pass, which
        computes it again. Evaluation has none.

        Raises FusionError inside a fused type.
        """
        if self.group:
            raise FusionError(
                f"{self.module!r} is inside a fused type: what is computed again is a whole "
                f"kernel; write Checkpointed around the fused type"
            )
        if self.phase != "train":
            return self
        region = self.builder.region(self.path or ROOT, repr(self.module), self.region)
        return replace(self, region=region)

    def run(self, *inputs: Value) -> Any:
        """Trace the module here; gives its output or the tuple of its outputs.

        Raises CompositionError if inputs or outputs are not what the signature says.
        """
        check_inputs(self, inputs)
        here = replace(self, inputs=inputs)
        with arithmetic(here):
            made = self.module.trace(here, *inputs)
        return checked_outputs(self, inputs, made)
