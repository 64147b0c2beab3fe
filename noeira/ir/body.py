"""What a kernel does, by role: phases one after the other, each of element-wise ops, at most one
other, and element-wise ops after it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from noeira.ir.graph import Node, Value
from noeira.ir.types import ALIGNMENT, TensorType

# The kind of op whose result is complete only when all rows of the batch were read: what reads it
# over other shapes waits for it.
ACROSS_ROWS = "column"


def kind_of(part: Node) -> str:
    """The kind of a part."""
    return part.op.kind_of(part.attrs, *(v.type for v in part.inputs))


@dataclass(frozen=True)
class Body:
    """What one phase of a kernel does: the `head`, then the `anchor`, the part that is not
    element-wise, if there is one, then the `tail`.

    inputs, outputs: what it reads from memory and what it puts there; fused, the inputs of the
    anchor are among these in any order, or made by the head.
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
        return self.anchor.op.stem(self.anchor.attrs, *(v.type for v in self.anchor.inputs))

    @property
    def moved_bytes(self) -> int:
        """Bytes of all that it reads and gives."""
        return sum(v.type.nbytes for v in (*self.inputs, *self.outputs))


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


def padded(offset: int) -> int:
    """The next place in memory at which a value may begin."""
    return -(-offset // ALIGNMENT) * ALIGNMENT


def phases_of(node: Node) -> Phases:
    """The phases of a node, fused or not."""
    return divided(node.parts, node.inputs, node.outputs)


def body_of(node: Node) -> Body:
    """What a node of one phase does."""
    (body,) = phases_of(node).bodies
    return body


def joined(parts: Sequence[Node]) -> Phases:
    """Parts that may become one node, of which every result is given."""
    made = {v.name for part in parts for v in part.outputs}
    inputs = dict.fromkeys(v for part in parts for v in part.inputs if v.name not in made)
    return divided(parts, tuple(inputs), tuple(v for part in parts for v in part.outputs))


def divided(parts: Sequence[Node], inputs: tuple[Value, ...], outputs: tuple[Value, ...]) -> Phases:
    """Parts divided into phases. A tail may hold more parts that are not element-wise, or that have
    another shape, which no form takes.
    """
    order = Order(parts)
    given = tuple(f"a{i}" for i in range(len(inputs)))
    results = {v.name: f"y{i}" for i, v in enumerate(outputs)}
    if not max(order.phase):
        targets = tuple(results[v.name] for v in outputs)
        body = Body(*order.roles(0), inputs, outputs, given, targets)
        return Phases((body,), inputs, outputs)
    scratch = left_for_later(order, results)
    names = dict(zip((v.name for v in inputs), given, strict=True)) | results
    names |= {name: one.id for name, one in scratch.items()}
    bodies = []
    for number in range(max(order.phase) + 1):
        head, anchor, tail = order.roles(number)
        own = (*head, *([anchor] if anchor else ()), *tail)
        made = dict.fromkeys(v for part in own for v in part.outputs)
        read = tuple(dict.fromkeys(v for part in own for v in part.inputs if v not in made))
        kept = tuple(v for v in made if v.name in names)
        sides = (tuple(names[v.name] for v in side) for side in (read, kept))
        bodies.append(Body(head, anchor, tail, read, kept, *sides))
    return Phases(tuple(bodies), inputs, outputs, tuple(scratch.values()))


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


class Order:
    """In which phase each part is done: in the first that can, for a part must wait for what is
    complete only when a phase is over; but element-wise ops that only later phases read are done
    there, so that nothing is stored for them.

    phase: the number of each part's; behind: whether a part reads what the anchor of its own phase
    makes; across: whether what it makes is complete only after all rows; readers: the parts that
    read what a part makes.
    """

    def __init__(self, parts: Sequence[Node]) -> None:
        self.parts = tuple(parts)
        self.phase: list[int] = []
        self.behind: list[bool] = []
        self.across: list[bool] = []
        self.readers: list[list[int]] = [[] for _ in self.parts]
        self.makers = {v.name: i for i, part in enumerate(parts) for v in part.outputs}
        for part in self.parts:
            self.place(part)
        if any(self.phase):
            for index in reversed(range(len(self.parts))):
                self.postpone(index)

    def place(self, part: Node) -> None:
        """Find the phase of the next part."""
        number, phase, read = len(self.phase), 0, list[int]()
        for value in part.inputs:
            maker = self.makers.get(value.name)
            if maker is not None:
                read.append(maker)
                phase = max(phase, self.phase[maker] + self.waits(part, value, maker))
        for maker in dict.fromkeys(read):
            self.readers[maker].append(number)
        same = [maker for maker in read if self.phase[maker] == phase]
        self.phase.append(phase)
        self.behind.append(any(map(self.follows_anchor, same)))
        self.across.append(kind_of(part) == ACROSS_ROWS or self.keeps_shape(part, read))

    def follows_anchor(self, index: int) -> bool:
        """Whether a part is an anchor, or reads what one in its phase makes."""
        return self.behind[index] or self.parts[index].op.kind != "map"

    def keeps_shape(self, part: Node, read: Sequence[int]) -> bool:
        """Whether an element-wise op reads what is complete after all rows, and nothing larger."""
        shape = part.outputs[0].type.shape
        return part.op.kind == "map" and any(
            self.across[maker] and self.parts[maker].outputs[0].type.shape == shape
            for maker in read
        )

    def waits(self, part: Node, value: Value, maker: int) -> bool:
        """Whether a part can read a value only when the phase that makes it is over: it reads for
        every row what is complete after all rows, or adds up rows that an anchor makes; or it
        follows an anchor over rows whose kernel does not take it.
        """
        if not self.across[maker]:
            return kind_of(part) == ACROSS_ROWS and self.follows_anchor(maker)
        if part.op.kind != "map":
            return True
        if part.outputs[0].type.shape != value.type.shape:
            return True
        made = self.parts[maker]
        return kind_of(made) == ACROSS_ROWS and "tail" not in made.op.takes

    def postpone(self, index: int) -> None:
        """Move an element-wise op that none of its own phase reads to the first phase that does."""
        phases = [self.phase[reader] for reader in self.readers[index]]
        if phases and not self.follows_anchor(index) and not self.across[index]:
            self.phase[index] = min(phases)

    def roles(self, phase: int) -> tuple[tuple[Node, ...], Node | None, tuple[Node, ...]]:
        """Head, anchor and tail of a phase."""
        own = [i for i, number in enumerate(self.phase) if number == phase]
        first = next((i for i in own if self.parts[i].op.kind != "map"), None)
        tail = [i for i in own if i != first and self.follows_anchor(i)]
        head = (self.parts[i] for i in own if i != first and i not in tail)
        anchor = None if first is None else self.parts[first]
        return tuple(head), anchor, tuple(self.parts[i] for i in tail)
