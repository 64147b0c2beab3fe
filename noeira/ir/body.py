"""What a kernel does, by role: phases one after the other, each of element-wise ops, at most one
other, and element-wise ops after it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from noeira.ir.graph import Node, Value
from noeira.ir.phasing import ANCHOR, TAIL, Order
from noeira.ir.types import TensorType, padded


@dataclass(frozen=True)
class Body:
    """What one phase of a kernel does: the `head`, then the `anchor`, the part that is not
    element-wise, if there is one, then the `tail`.

    inputs, outputs: what it reads from memory and what it puts there; fused, the inputs of the
    anchor are among these in any order, or made by the head; what is read through a view, too, is
    an input, of the view's shape.
    sources, targets: the names of the kernel's arguments for these: `a0`, … are operands of the
    call, `y0`, … its results, `w0`, … values that only its phases know.
    """

    head: tuple[Node, ...]
    anchor: Node | None
    tail: tuple[Node, ...]
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    sources: tuple[str, ...]
    targets: tuple[str, ...]

    @property
    def parts(self) -> tuple[Node, ...]:
        """All of them, in order."""
        return (*self.head, *([self.anchor] if self.anchor else ()), *self.tail)

    @property
    def stem(self) -> str:
        """The stem of the template: the anchor's, or `map`."""
        if self.anchor is None:
            return "map"
        return self.anchor.op.stem(self.anchor.attrs, *self.anchor.types)

    @property
    def moved_bytes(self) -> int:
        """Bytes of all that it reads and gives."""
        return self.read_bytes + sum(v.type.nbytes for v in self.outputs)

    @property
    def read_bytes(self) -> int:
        """Bytes of all that it reads."""
        return sum({v.name: v.type.nbytes for v in self.inputs}.values())


@dataclass(frozen=True)
class Scratch:
    """A value that a phase leaves in the call's workspace for a later one: its name as an argument,
    its type, and where it begins, in bytes.
    """

    id: str
    type: TensorType
    offset: int


@dataclass(frozen=True)
class Phases:
    """The phases of a kernel, each begun when all of the one before is done. inputs, outputs: what
    the call reads and gives; scratch: what only its phases read.
    """

    bodies: tuple[Body, ...]
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    scratch: tuple[Scratch, ...] = ()

    @property
    def several(self) -> bool:
        """Whether there are more than one."""
        return len(self.bodies) > 1

    @property
    def scratch_bytes(self) -> int:
        """Bytes at the front of the workspace, for what phases leave for others."""
        return max((padded(s.offset + s.type.nbytes) for s in self.scratch), default=0)

    @property
    def labels(self) -> tuple[str, ...]:
        """What tells phases apart in plans and in names of functions: "" for a lone one, else its
        stem, numbered where one of the same stem stands before it.
        """
        if not self.several:
            return ("",)
        found = list[str]()
        for body in self.bodies:
            count = sum(other.stem == body.stem for other in self.bodies[: len(found)])
            found.append(f"{body.stem}_{count + 1}" if count else body.stem)
        return tuple(found)


def phases_of(node: Node) -> Phases:
    """The phases of a node, fused or not."""
    node = node.laid
    return divided(Order(node.parts, node.outputs), node.inputs, node.outputs)


def body_of(node: Node) -> Body:
    """What a node of one phase does."""
    (body,) = phases_of(node).bodies
    return body


def joined(parts: Sequence[Node], order: Order) -> Phases:
    """The phases of parts that may become one node, of which every result is given."""
    parts = [part.laid for part in parts]
    made = {v.name for part in parts for v in part.outputs}
    inputs = dict.fromkeys(v for part in parts for v in part.inputs if v.name not in made)
    launching = (part for part in parts if part.launches)
    return divided(order, tuple(inputs), tuple(v for part in launching for v in part.outputs))


def divided(order: Order, inputs: tuple[Value, ...], outputs: tuple[Value, ...]) -> Phases:
    """The phases of a call."""
    given = tuple(f"a{i}" for i in range(len(inputs)))
    results = {v.name: f"y{i}" for i, v in enumerate(outputs)}
    roles = roles_of(order)
    if len(roles) == 1:
        body = Body(*roles[0], inputs, outputs, given, tuple(results.values()))
        return Phases((body,), inputs, outputs)
    scratch = left_for_later(order, results)
    names = dict(zip((v.name for v in inputs), given, strict=True)) | results
    names |= {name: one.id for name, one in scratch.items()}
    bodies = tuple(body_among(names, *own) for own in roles)
    return Phases(bodies, inputs, outputs, tuple(scratch.values()))


def roles_of(order: Order) -> list[tuple[tuple[Node, ...], Node | None, tuple[Node, ...]]]:
    """Head, anchor and tail of each phase. What is done before or after an anchor's kernel is the
    head of a phase without one.
    """
    heads, anchors, tails = (defaultdict[int, list[Node]](list) for _ in range(3))
    for part, phase, stage in zip(order.parts, order.phase, order.stage, strict=True):
        (anchors if stage == ANCHOR else tails if stage == TAIL else heads)[phase].append(part)
    return [
        (tuple(heads[phase]), next(iter(anchors[phase]), None), tuple(tails[phase]))
        for phase in range(max(order.phase) + 1)
    ]


def body_among(
    names: Mapping[str, str], head: tuple[Node, ...], anchor: Node | None, tail: tuple[Node, ...]
) -> Body:
    """One of several phases; what crosses from one to another, or into the call or out of it, has a
    name.
    """
    parts = (*head, *([anchor] if anchor else ()), *tail)
    made = {v.name: v for part in parts for v in part.outputs}
    read = tuple(dict.fromkeys(v for part in parts for v in part.inputs if v.name not in made))
    kept = tuple(v for name, v in made.items() if name in names)
    sides = (tuple(names[v.name] for v in side) for side in (read, kept))
    return Body(head, anchor, tail, read, kept, *sides)


def left_for_later(order: Order, results: Mapping[str, str]) -> dict[str, Scratch]:
    """The values, by name, that a phase makes and a later one reads, and that are no results."""
    found, offset = dict[str, Scratch](), 0
    for index, part in enumerate(order.parts):
        later = [r for r in order.readers[index] if order.phase[r] > order.phase[index]]
        read = {v.name for reader in later for v in order.parts[reader].inputs}
        for value in part.outputs:
            if value.name in read and value.name not in results:
                found[value.name] = Scratch(f"w{len(found)}", value.type, offset)
                offset = padded(offset + value.type.nbytes)
    return found
