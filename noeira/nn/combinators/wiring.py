"""Modules that read each other by name: what feeds what, the signature of the whole, and the
message for each mistake, which names both ends.
"""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NoReturn

from noeira.errors import CompositionError
from noeira.ir.graph import Value
from noeira.nn.combinators.declarations import (
    REFERENCE,
    Declaration,
    ExternalNode,
    InputSlot,
    Node,
    Output,
    part_text,
    quoted,
    text,
)
from noeira.nn.core.image_axes import reordered
from noeira.nn.core.messages import change, sentence, underlined
from noeira.nn.core.module import Module
from noeira.nn.core.scope import Scope
from noeira.nn.core.signature import Pattern, Signature, listed
from noeira.nn.core.unify import Misfit, Solver

# Tensors of a module that a message names.
FEW = 2


class Mismatch(Exception):
    """What `giver` gives under the name `read` is not what `reader` takes as its input `index`."""

    def __init__(
        self,
        giver: Declaration,
        reader: Node,
        index: int,
        gives: Pattern,
        takes: Pattern,
        misfit: Misfit,
    ) -> None:
        super().__init__("the shapes differ")
        self.giver, self.reader, self.index = giver, reader, index
        self.gives, self.takes = gives, takes
        self.misfit = misfit
        self.axis, self.because = misfit.axis, reader.module.because(misfit)


@dataclass(frozen=True)
class Wiring:
    """Inputs, nodes in order, and the names of what is given; made by `wired`, which checks it.
    shown: the declarations as they stand in brackets.
    """

    owner: str
    slots: tuple[InputSlot, ...]
    nodes: tuple[Node, ...]
    outputs: tuple[str, ...]
    shown: tuple[Declaration, ...] = field(compare=False)

    @cached_property
    def givers(self) -> Mapping[str, InputSlot | Node]:
        """Inputs and nodes by name."""
        return {one.name: one for one in (*self.slots, *self.nodes)}

    @property
    def modules(self) -> tuple[type[Module], ...]:
        """The modules that have their parameters here."""
        return tuple(module for _, module in self.children)

    @property
    def children(self) -> tuple[tuple[str, type[Module]], ...]:
        """These, by the names of their nodes."""
        return tuple((n.name, n.module) for n in self.nodes if not isinstance(n, ExternalNode))

    def run(self, scope: Scope, inputs: Sequence[Value]) -> Any:
        """Trace the modules; gives the output or the tuple of outputs."""
        values = dict(zip((slot.name for slot in self.slots), inputs, strict=True))
        for node in self.nodes:
            made = node.scope(scope).run(*(values[name] for name in node.inputs))
            several = made if isinstance(made, tuple) else (made,)
            values |= dict(zip(names_of(node), several, strict=True))
        found = tuple(values[name] for name in self.outputs)
        return found[0] if len(found) == 1 else found

    def signature(self) -> Signature:
        """What the whole takes and gives. Raises CompositionError that shows the first pair that
        does not fit.
        """
        try:
            return self.solved()
        except Mismatch as found:
            raise self.misfit(found) from None

    def solved(self, given: Sequence[Pattern] = ()) -> Signature:
        """The same. given: what the inputs are, if that is known. Raises Mismatch."""
        own = [node.module.shapes().apart(at) for at, node in enumerate(self.nodes)]
        solver, known = Solver.of(*own), {slot.name: slot.pattern for slot in self.slots}
        known |= dict(zip(known, given, strict=False))
        below = dict[str, list[Any]]()
        for node, signature in zip(self.nodes, own, strict=True):
            for index, (name, takes) in enumerate(zip(node.inputs, signature.inputs, strict=True)):
                below.setdefault(name, []).append(takes.below)
                known[name] = self.joined(solver, known[name], node, index, takes)
            known |= dict(zip(names_of(node), signature.outputs, strict=True))
        inputs = list[Pattern]()
        for slot in self.slots:
            pattern = known[slot.name] or Pattern((), f"*'{slot.name}")
            inputs.append(replace(pattern, below=least(solver, below.get(slot.name, ()))))
        outputs = [pattern for name in self.outputs if (pattern := known[name])]
        return solver.result(inputs, outputs).tidy()

    def joined(
        self, solver: Solver, gives: Pattern | None, node: Node, index: int, takes: Pattern
    ) -> Pattern:
        """What a node reads, made equal to what it takes. Raises Mismatch."""
        giver = self.givers[name_of(node.inputs[index])]
        if gives is None:
            return takes
        if isinstance(giver, InputSlot) and gives.dtype is None and takes.dtype:
            gives = replace(gives, dtype=takes.dtype)
        before, wanted = solver.applied(gives), solver.applied(takes)
        try:
            solver.equal(gives, takes)
        except Misfit as misfit:
            ends = tidy(before), tidy(wanted)
            raise Mismatch(giver, node, index, *ends, misfit) from None
        return gives

    def misfit(self, found: Mismatch, title: str = "") -> CompositionError:
        """The error for what does not fit: both declarations underlined, and what to change."""
        reads, verb = found.reader.inputs[found.index], "gives"
        notes = {}
        if isinstance(found.giver, InputSlot):
            verb = "is"
        if found.giver in self.shown:
            notes[self.shown.index(found.giver)] = f"{verb} {found.gives}"
        others = ", ".join(text(name) for name in found.reader.inputs[: found.index])
        own = found.reader.module.shapes().inputs[found.index]
        front = "" if len(found.reader.inputs) == 1 else f" as {text(reads)}"
        beside = f", beside {others}" if others and str(own) != str(found.takes) else ""
        notes[self.shown.index(found.reader)] = (
            f"takes {found.takes}{front}{beside}{found.misfit.why}"
        )
        picture = underlined(self.owner, [repr(one) for one in self.shown], notes)
        pair = f"{text(name_of(reads))} and {text(found.reader.name)}"
        return CompositionError(
            f"{pair} of {title or self.owner} do not fit\n\n{picture}"
            f"{sentence(found.because) if title else self.advice(found)}"
        )

    def advice(self, found: Mismatch) -> str:
        """What to change, as far as all then fits."""
        orders = found.misfit.orders
        if found.because or (found.misfit.why and not orders):
            return sentence(found.because)
        if found.gives.dtype != found.takes.dtype:
            return "\n\n  They differ in what their elements are."
        good = [
            (part_text(old), part_text(new))
            for old, new in self.changes(found)
            if fits(self.owner, [new if one is old else one for one in self.shown])
        ]
        if found.axis is None and not orders:
            return change(*good[:1]) or "\n\n  They differ in the number of axes."
        return change(*dict.fromkeys(good)) or "\n\n  Change one of them."

    def changes(self, found: Mismatch) -> Iterator[tuple[Declaration, Declaration]]:
        """Declarations, and what they could be instead."""
        reader, giver = found.reader, found.giver
        axes = range(-1, -1 - len(found.gives.axes), -1)
        for slot, values in (("AXIS", axes), ("AXES", found.misfit.orders or ())):
            pairs = itertools.product((reader, giver), values)
            for one, value in pairs:
                module = one.module.varied(slot, value) if isinstance(one, Node) else None
                if module:
                    yield one, replace(one, module=module)
        if found.axis is None:
            yield from ((reader, replace(reader, module=one)) for one in reordered(reader.module))
            return
        has, wants = found.gives.axes[found.axis], found.takes.axes[found.axis]
        if isinstance(has, int) and found.index == 0:
            module = reader.module.adjusted("takes", found.axis, has)
            if module:
                yield reader, replace(reader, module=module)
        if not isinstance(wants, int):
            return
        if isinstance(giver, Node):
            module = giver.module.adjusted("gives", found.axis, wants)
            if module:
                yield giver, replace(giver, module=module)
        elif isinstance(giver, InputSlot) and giver.shape and -found.axis <= len(giver.shape):
            shape = list(giver.shape)
            shape[found.axis] = wants
            yield giver, replace(giver, shape=tuple(shape))


def wired(owner: str, shown: Sequence[Declaration], inputs_by_name: bool = False) -> Wiring:
    """The wiring that declarations of a type called `owner` say. inputs_by_name: whether the inputs
    are the names that no node has, in the order in which they are read.

    Raises CompositionError for names that are not there, are there twice, or come too late, and for
    another number of inputs than a module takes.
    """
    *most, last = shown
    for one in most:
        if isinstance(one, Output):
            fail(owner, shown, {shown.index(one): "ends here"}, f"{one!r} must be the last")
    nodes = tuple(one for one in shown if isinstance(one, Node))
    if not nodes:
        raise CompositionError(
            f"{owner}[{', '.join(map(repr, shown))}] has no node: write {owner}"
            '[InputSlot["x", 64], Node["h", Linear[64, 32], "x"]]'
        )
    check_twice(owner, shown)
    slots = tuple(one for one in shown if isinstance(one, InputSlot))
    if inputs_by_name:
        own = {node.name for node in nodes}
        read = (name_of(name) for node in nodes for name in node.inputs)
        slots = tuple(InputSlot(name) for name in dict.fromkeys(read) if name not in own)
    outputs = last.names if isinstance(last, Output) else (nodes[-1].name,)
    if not isinstance(last, (Node, Output)):
        fail(owner, shown, {len(shown) - 1: "is an input"}, "the last declaration gives the output")
    found = Wiring(owner, slots, nodes, outputs, tuple(shown))
    for node in nodes:
        check_reads(found, node)
    for name in outputs:
        check_reference(found, last, name, {**found.givers})
    check_read(found)
    return found


def check_twice(owner: str, shown: Sequence[Declaration]) -> None:
    """Raises CompositionError for two declarations of one name."""
    named = [one for one in shown if isinstance(one, (InputSlot, Node))]
    for one, other in itertools.combinations(named, 2):
        if one.name == other.name:
            places = [at for at, given in enumerate(shown) if given in (one, other)]
            notes = dict.fromkeys(places, text(one.name))
            fail(owner, shown, notes, f"two declarations are called {text(one.name)}")


def check_reads(wiring: Wiring, node: Node) -> None:
    """Raises CompositionError unless what a node reads is there, before it, and as much as it
    takes; an ExternalNode of a node here has its parameters.
    """
    before = {slot.name: slot for slot in wiring.slots}
    before |= {n.name: n for n in itertools.takewhile(lambda n: n is not node, wiring.nodes)}
    for name in node.inputs:
        check_reference(wiring, node, name, before)
    takes = node.module.shapes().inputs
    if len(takes) != len(node.inputs):
        given, places = ", ".join(map(text, node.inputs)), wiring.shown
        notes = {places.index(node): f"takes {listed(takes)}, given {given}"}
        count = "1 input" if len(takes) == 1 else f"{len(takes)} inputs"
        title = f"{text(node.name)} is given {len(node.inputs)}: {node.module!r} takes {count}"
        fail(wiring.owner, places, notes, title)
    if isinstance(node, ExternalNode):
        check_owner(wiring, node)


def check_reference(
    wiring: Wiring, reader: Declaration, name: str, before: Mapping[str, InputSlot | Node]
) -> None:
    """Raises CompositionError unless a name that a declaration reads is that of a value."""
    owner, shown, base = wiring.owner, wiring.shown, name_of(name)
    who = text(reader.name) if isinstance(reader, Node) else repr(reader)
    at = shown.index(reader)
    giver = wiring.givers.get(base)
    if giver is None:
        near = difflib.get_close_matches(base, before, n=1)
        hint = f"did you mean {text(near[0])}?" if near else f"there are {quoted(before)}"
        notes = {at: f"reads {text(base)}"}
        fail(owner, shown, notes, f"{who} reads {text(base)}, which there is not; {hint}")
    if base not in before:
        assert isinstance(giver, Node)
        ring = [one for one in leading_to(wiring, giver) if one is reader]
        what = "a node cannot read what follows from it" if ring else "move that before it"
        notes = {shown.index(giver): f"gives {text(base)}"} | {at: f"reads {text(base)}"}
        fail(owner, shown, notes, f"{who} reads {text(base)}, which comes after it: {what}")
    if isinstance(giver, Node) and name not in names_of(giver):
        known, notes = quoted(names_of(giver)), {shown.index(giver): "", at: f"reads {text(name)}"}
        outputs = listed(giver.module.shapes().outputs)
        notes[shown.index(giver)] = f"gives {outputs}"
        fail(owner, shown, notes, f"{who} reads {text(name)}: {text(base)} gives {known}")
    if isinstance(giver, InputSlot) and name != base:
        notes = {at: f"reads {text(name)}"}
        fail(owner, shown, notes, f"{who} reads {text(name)}: {text(base)} is one input")


def check_owner(wiring: Wiring, node: ExternalNode) -> None:
    """Raises CompositionError if the node here that an ExternalNode names has other parameters."""
    owner = wiring.givers.get(node.path)
    if owner is None or owner is node:
        return
    if isinstance(owner, (InputSlot, ExternalNode)) or not same_tensors(owner.module, node.module):
        shown = wiring.shown
        notes = {shown.index(owner): tensor_text(owner), shown.index(node): tensor_text(node)}
        title = f"{text(node.name)} cannot have the parameters of {text(node.path)}"
        fail(wiring.owner, shown, notes, title)


def check_read(wiring: Wiring) -> None:
    """Raises CompositionError for a node that leads to nothing."""
    read = {name_of(name) for node in wiring.nodes for name in node.inputs}
    read |= set(map(name_of, wiring.outputs))
    read |= {one.path.partition(".")[0] for one in wiring.nodes if isinstance(one, ExternalNode)}
    for node in wiring.nodes:
        if node.name not in read:
            notes = {wiring.shown.index(node): "is read by none"}
            hint = f"write Output[…, {text(node.name)}], or leave it out"
            fail(wiring.owner, wiring.shown, notes, f"nothing reads {text(node.name)}: {hint}")


def leading_to(wiring: Wiring, node: Node) -> set[Node]:
    """A node and the nodes that it follows from."""
    found, pending = set[Node](), [node]
    while pending:
        one = pending.pop()
        if one not in found:
            found.add(one)
            givers = (wiring.givers.get(name_of(name)) for name in one.inputs)
            pending += [giver for giver in givers if isinstance(giver, Node)]
    return found


def fail(
    owner: str, shown: Sequence[Declaration], notes: Mapping[int, str], title: str
) -> NoReturn:
    """Raises the error for declarations of a type."""
    picture = underlined(owner, [repr(one) for one in shown], notes)
    raise CompositionError(f"{owner}: {title}\n\n{picture}")


def fits(owner: str, shown: Sequence[Declaration]) -> bool:
    """Whether declarations fit."""
    try:
        wired(owner, shown, not any(isinstance(one, InputSlot) for one in shown)).solved()
    except (CompositionError, Mismatch):
        return False
    return True


def same_tensors(one: type[Module], other: type[Module]) -> bool:
    """Whether two types have parameters and buffers of the same names and shapes."""
    return tensors_of(one) == tensors_of(other)


def tensors_of(module: type[Module]) -> dict[str, tuple[int, ...]]:
    """The shapes of all parameters and buffers, by path."""
    every = (*module.parameters().items(), *module.buffers().items())
    return {path: info.shape for path, info in every}


def tensor_text(one: InputSlot | Node) -> str:
    """The tensors of a node, in a few words."""
    if isinstance(one, InputSlot):
        return "is an input"
    found = [f"{path} {list(shape)}" for path, shape in tensors_of(one.module).items()]
    more = ", …" if len(found) > FEW else ""
    where = "has its own elsewhere" if isinstance(one, ExternalNode) else "has none"
    return f"{', '.join(found[:FEW])}{more}" if found else where


def names_of(node: Node) -> tuple[str, ...]:
    """What the outputs of a node are read by."""
    count = len(node.module.shapes().outputs)
    return (node.name,) if count == 1 else tuple(f"{node.name}.{at}" for at in range(count))


def name_of(reference: str) -> str:
    """The name of the input or node that something is read of."""
    found = REFERENCE.fullmatch(reference)
    assert found is not None
    return found[1]


def least(solver: Solver, limits: Sequence[Any]) -> Any:
    """What an index input stays below: the least of what its readers say."""
    found = [solver.resolved(limit) for limit in limits if limit is not None]
    numbers = [limit for limit in found if isinstance(limit, int)]
    return min(numbers) if numbers else next(iter(found), None)


def tidy(pattern: Pattern) -> Pattern:
    """A pattern as its module writes it."""
    return Signature((pattern,), ()).tidy().inputs[0]
