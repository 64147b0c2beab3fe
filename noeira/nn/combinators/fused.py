"""Fused: modules one after the other, in one kernel; what cannot be one kernel is refused when the
type is made.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from noeira.errors import CompositionError, FusionError
from noeira.ir.builder import Builder
from noeira.ir.graph import Node, Value
from noeira.ir.states import numbered
from noeira.ir.types import TensorType
from noeira.nn.combinators.chain import Chain
from noeira.nn.combinators.declarations import Declaration, declarations
from noeira.nn.combinators.wiring import Wiring, wired
from noeira.nn.core.binding import as_written
from noeira.nn.core.init import Kaiming
from noeira.nn.core.module import Module
from noeira.nn.core.module_type import made_type
from noeira.nn.core.scope import Scope
from noeira.nn.core.signature import Pattern, Signature
from noeira.nn.core.states import network_states
from noeira.nn.core.unify import Misfit, solve

__all__ = ["Fused"]

# (first type without its parameters, the types after it) -> the named fused type that has the first
# one's parameters
SHORT_NAMES: dict[tuple[Any, ...], Any] = {}
# The kinds of parts that are known to make one kernel. Where sizes matter all the same, the pass
# `fuse` refuses.
ONE_KERNEL: set[tuple[Any, ...]] = set()
# Lengths tried for open axes when a fused type is probed.
PROBES = (8, 16, 32, 64)
Phase = Literal["train", "eval"]
PHASES: tuple[Phase, ...] = ("train", "eval")


class Fused(Chain):
    """`Fused[A, B, …]`: B(A(x)), computed by one kernel; the values between them are never stored
    unless read elsewhere.

    Takes and gives what Sequential[A, B, …] does, with the same numbers. Parameters: those of the
    modules; named without a position if only one of them has any, so that `Fused[Linear[3, 4],
    ReLU]` has `weight` and `bias`.
    Some have short names: `Fused[Linear[3, 4], ReLU]` is `LinearReLU[3, 4]`.
    `Fused[Node["s", Add, "x", "f"], Node["y", Tanh, "s"]]` is a small graph in one kernel: its
    inputs are the names that no node has, in the order in which they are read; parameters are at
    the names of nodes. See `Graph`.
    """

    LAYERS = declarations(or_modules=True)

    @classmethod
    def wiring(cls) -> Wiring | None:
        """What feeds what, of a graph; None of a chain."""
        if not any(isinstance(part, Declaration) for part in cls.LAYERS):
            return None
        return cls.remembered("_wiring", partial(wired, cls.family.__name__, cls.LAYERS, True))

    @classmethod
    def parts(cls) -> tuple[type[Module], ...]:
        wiring = cls.wiring()
        return wiring.modules if wiring else cls.LAYERS

    @classmethod
    def listed(cls) -> tuple[type[Module], ...]:
        """What a fused type around it would list: the parts of a chain, a graph as a whole."""
        return (cls,) if cls.wiring() else cls.parts()

    @classmethod
    def compose(cls) -> Signature:
        wiring = cls.wiring()
        return wiring.signature() if wiring else super().compose()

    @classmethod
    def changed(cls, end: Literal["takes", "gives"], axis: int, length: int) -> Any:
        return None if cls.wiring() else super().changed(end, axis, length)

    @classmethod
    def refuse(cls, args: tuple[Any, ...], named: dict[str, Any]) -> None:
        if cls is not Fused:
            return
        written = as_written(cls, args, named)
        types = [a for a in args if isinstance(a, type) and issubclass(a, Module)]
        if len(args) == len(types) == 1 and types[0].is_complete:
            raise FusionError(
                f"{written}: there is nothing to fuse {types[0]!r} with; write {types[0]!r}"
            )
        inner = [part for part in types if issubclass(part, Fused) and part.is_complete]
        if inner:
            raise FusionError(
                f"{written}: {inner[0]!r} is a kernel already; write {cls.instead_of(types)}"
            )

    @classmethod
    def instead_of(cls, types: list[type[Module]]) -> str:
        """What to write in place of fused types inside a fused type."""
        flat = tuple(p for t in types for p in (t.parts() if issubclass(t, Fused) else (t,)))
        try:
            return repr(Fused.parametrised(flat, {}))
        except CompositionError:
            return f"Sequential[{', '.join(map(repr, types))}]"

    @classmethod
    def make(cls, values: tuple[Any, ...]) -> Any:
        first, *rest = values[0] if cls is Fused else (None,)
        if isinstance(first, type):
            short = SHORT_NAMES.get((first.family, *rest)) if first.is_made else None
            if short is not None:
                return short.make(first.values)
        return super().make(values)

    @classmethod
    def check(cls) -> None:
        super().check()
        kinds = tuple(map(kind, cls.parts())) if cls.wiring() is None else (cls,)
        if kinds in ONE_KERNEL:
            return
        if reason := refused(cls):
            raise FusionError(
                f"{cls!r} cannot be one kernel{reason}\n\n  Write {apart(cls)} for one kernel each."
            )
        ONE_KERNEL.add(kinds)

    @classmethod
    def children(cls) -> tuple[tuple[str, type[Module]], ...]:
        if wiring := cls.wiring():
            return wiring.children
        parts = cls.parts()
        if sum(bool(part.parameters() or part.buffers()) for part in parts) > 1:
            return super().children()
        return tuple(("", part) for part in parts)

    @classmethod
    def trace(cls, scope: Scope, *inputs: Value) -> Any:
        wiring, inner = cls.wiring(), scope.fused()
        return wiring.run(inner, inputs) if wiring else cls.through(inner, *inputs)

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """A tensor of a part that has no position of its own: `net[0].weight`."""


def kind(part: type[Module]) -> tuple[Any, ...]:
    """A type without its sizes, which seldom matter for what a kernel can be."""
    if not part.is_made:
        return (part,)
    return (part.family, tuple(value for value in part.values or () if type(value) is not int))


def refused(cls: type[Module]) -> str:
    """Why a fused type cannot be one kernel, with the phase in front if it is one of them; empty if
    it can.
    """
    from noeira.ir.forms import refusal

    # Most layers are the same in both phases, and so is the answer.
    for nodes, phases in grouped({phase: probe(cls, phase) for phase in PHASES}):
        # Of what only training does, such as dropout, nothing may be left.
        if nodes and (reason := refusal(nodes)):
            return f"{'' if phases == PHASES else f' in phase {phases[0]}'}: {reason}"
    return ""


def grouped(probes: Mapping[Phase, tuple[Node, ...]]) -> Iterator[tuple[Any, tuple[Phase, ...]]]:
    """Different bodies, each with the phases in which it is that of the kernel."""
    found = dict[tuple[Node, ...], tuple[Phase, ...]]()
    for phase, nodes in probes.items():
        found[nodes] = (*found.get(nodes, ()), phase)
    yield from found.items()


def probe(cls: type[Module], phase: Phase) -> tuple[Node, ...]:
    """What a fused type's kernel does for two small samples; open sizes are made up. What only
    updates of states are made of is left out if it has no kernel with it.
    """
    from noeira.ir.forms import refusal
    from noeira.ir.fused import views_of, with_views

    builder = Builder("probe")
    values = network_states(cls, Kaiming(), "f32").values()
    signature = small(cls.shapes())
    inputs = [
        builder.input(name, TensorType(p.dtype or "f32", (2, *p.shape)), p.limit)
        for name, p in zip(numbered("x", len(signature.inputs)), signature.inputs, strict=True)
    ]
    made = Scope(builder, cls, values, phase=phase).run(*inputs)
    views = views_of(builder.nodes)
    kernel = tuple(node for node in builder.nodes if node.group and node.launches)
    if kernel and refusal(with_views(kernel, views)):
        needed = {v.name for v in (made if isinstance(made, tuple) else (made,))}
        for node in reversed(builder.nodes):
            if not needed.isdisjoint(v.name for v in node.outputs):
                needed |= {v.name for v in node.inputs}
        kernel = tuple(n for n in kernel if not needed.isdisjoint(v.name for v in n.outputs))
    return with_views(kernel, views)


def small(signature: Signature) -> Signature:
    """The signature with small lengths for everything open.

    Raises CompositionError if none of a few suits it.
    """
    names = signature.variables()
    guesses = [dict.fromkeys(names, length) for length in PROBES]
    # One axis that is as long as the others, of length 1, demand.
    guesses += [dict.fromkeys((other for other in names if other != name), 1) for name in names]
    for lengths in guesses:
        guess = signature.filled(lengths)
        try:
            found = solve(guess, [fixed(p) for p in guess.inputs])
        except Misfit:
            continue
        if not found.variables():
            return found
    raise CompositionError(f"no small sample suits {signature}")


def fixed(pattern: Pattern) -> Pattern:
    """The pattern with `*` standing for nothing, or for one axis where there is no other."""
    return (
        replace(pattern, rest=None, axes=pattern.axes or (PROBES[0],)) if pattern.rest else pattern
    )


def apart(cls: type[Fused]) -> str:
    """The same modules one after the other, as many of them fused as can be, or as a graph."""
    if wiring := cls.wiring():
        return f"Graph[{', '.join(map(repr, (*wiring.slots, *cls.LAYERS)))}]"
    first, *others = cls.parts()
    kernels = [[first]]
    for part in others:
        if refused(made_type(Fused, ((*kernels[-1], part),))):
            kernels.append([part])
        else:
            kernels[-1].append(part)
    shown = (repr(Fused.make((tuple(k),)) if len(k) > 1 else k[0]) for k in kernels)
    return f"Sequential[{', '.join(shown)}]"
