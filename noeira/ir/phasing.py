"""In which phase of its kernel each part is done."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from noeira.ir.broadcasting import runs_by_columns, walk_of
from noeira.ir.graph import Node, Value
from noeira.ir.types import TensorType

# The kind of op whose result is complete only when all rows of the batch were read: what reads it
# over other shapes waits for it.
ACROSS_ROWS = "column"
# Kinds of which a level may have several that do not read each other.
SEPARATE = (ACROSS_ROWS, "row")
# Where in its slot a part is done: element-wise before the anchor's kernel, in it, after it.
BEFORE, WITHIN, AFTER = range(3)


def kind_of(part: Node) -> str:
    """The kind of a part."""
    return part.op.kind_of(part.attrs, *(v.type for v in part.inputs))


def rows_of(part: Node) -> TensorType:
    """What the kernel of an anchor takes row by row."""
    return part.op.rows(part.attrs, *(v.type for v in part.inputs))


def shape_of(part: Node) -> tuple[int, ...]:
    """The shape of a part's first result."""
    return part.outputs[0].type.shape


def runs_by_rows(part: Node, value: Value, columns: int) -> bool:
    """Whether an element-wise op reads an operand one by one, or one element of it, along each
    `columns` elements.
    """
    return runs_by_columns(walk_of(value.type.shape, shape_of(part)), columns)


def seen_through(parts: Sequence[Node]) -> tuple[Node, ...]:
    """The parts that launch; what they read through a view is its operand in the view's shape."""
    base, found = dict[str, str](), list[Node]()
    for part in parts:
        if not part.launches:
            name = part.inputs[0].name
            base[part.outputs[0].name] = base.get(name, name)
        elif base and any(v.name in base for v in part.inputs):
            read = tuple(Value(base.get(v.name, v.name), v.type) for v in part.inputs)
            found.append(replace(part, inputs=read))
        else:
            found.append(part)
    return tuple(found)


class Order:
    """In which phase each part is done.

    First parts are given levels: each is done in the first that can, for a part must wait for what
    is complete only when a kernel is over; but element-wise ops that only later levels read are
    done there, so that nothing is stored for them. Then what one kernel of a level does not do is
    done before or after it: see `Level`.

    parts: those that launch; phase: the number of each part's, its level until these are divided;
    behind: whether a part reads what the anchor of its own level makes; across: whether what it
    makes is complete only after all rows; readers: the parts that read what a part makes; ends:
    whether a part that reads no anchor is done with what follows it all the same.
    """

    def __init__(self, parts: Sequence[Node]) -> None:
        self.parts = seen_through(parts)
        self.phase: list[int] = []
        self.behind: list[bool] = []
        self.across: list[bool] = []
        self.readers: list[list[int]] = [[] for _ in self.parts]
        self.makers = {v.name: i for i, part in enumerate(self.parts) for v in part.outputs}
        self.ends = [False] * len(self.parts)
        for part in self.parts:
            self.place(part)
        if any(self.phase):
            for index in reversed(range(len(self.parts))):
                self.postpone(index)
        self.divide()

    def place(self, part: Node) -> None:
        """Find the level of the next part."""
        number, phase, read = len(self.phase), 0, list[int]()
        keeps = False
        for value in part.inputs:
            maker = self.makers.get(value.name)
            if maker is not None:
                read.append(maker)
                phase = max(phase, self.phase[maker] + self.waits(part, value, maker))
                keeps |= self.across[maker] and value.type.shape == shape_of(part)
        for maker in dict.fromkeys(read):
            self.readers[maker].append(number)
        same = [maker for maker in read if self.phase[maker] == phase]
        self.phase.append(phase)
        self.behind.append(any(map(self.follows_anchor, same)))
        self.across.append(kind_of(part) == ACROSS_ROWS or (part.op.kind == "map" and keeps))

    def follows_anchor(self, index: int) -> bool:
        """Whether a part is an anchor, or reads what one in its level makes."""
        return self.behind[index] or self.parts[index].op.kind != "map"

    def waits(self, part: Node, value: Value, maker: int) -> bool:
        """Whether a part can read a value only when the kernel that makes it is over: it reads for
        every row what is complete after all rows, or adds up rows that an anchor makes; or it
        follows an anchor whose kernel does not take it.
        """
        if part.op.kind != "map":
            column = kind_of(part) == ACROSS_ROWS
            return self.across[maker] or (column and self.follows_anchor(maker))
        if not self.across[maker] and not self.follows_anchor(maker):
            return False
        if shape_of(part) != value.type.shape:
            return True
        made = self.parts[maker]
        taken = "tail" in made.op.takes and value.name == made.outputs[0].name
        return made.op.kind != "map" and not taken

    def postpone(self, index: int) -> None:
        """Move an element-wise op that none of its own level reads to the first level that does."""
        phases = [self.phase[reader] for reader in self.readers[index]]
        if phases and not self.follows_anchor(index) and not self.across[index]:
            self.phase[index] = min(phases)

    def divide(self) -> None:
        """Make phases of levels."""
        if len(self.parts) == 1:
            return
        levels: list[list[int]] = [[] for _ in range(max(self.phase) + 1)]
        for index, number in enumerate(self.phase):
            levels[number].append(index)
        places = [(0, 0, 0, 0)] * len(self.parts)
        for number, own in enumerate(levels):
            for index, place in Level(self, own).places().items():
                places[index] = (number, *place)
        numbers = {place: number for number, place in enumerate(sorted(set(places)))}
        self.phase = [numbers[place] for place in places]

    def roles(self, phase: int) -> tuple[tuple[Node, ...], Node | None, tuple[Node, ...]]:
        """Head, anchor and tail of a phase."""
        own = [i for i, number in enumerate(self.phase) if number == phase]
        first = next((i for i in own if self.parts[i].op.kind != "map"), None)
        tail = [i for i in own if i != first and (self.follows_anchor(i) or self.ends[i])]
        head = (self.parts[i] for i in own if i != first and i not in tail)
        anchor = None if first is None else self.parts[first]
        return tuple(head), anchor, tuple(self.parts[i] for i in tail)


class Level:
    """The parts of one level, by index. Anchors that do not read each other have a slot each, one
    after the other. What the kernel of an anchor does not make, since it has another shape than
    the rows that are taken, or only the ops after it read it, is made before it, by element-wise
    kernels over one number of elements each; what only a result is made of may come after it.
    """

    def __init__(self, order: Order, own: Sequence[int]) -> None:
        self.order, self.own = order, own
        self.parts, self.within = order.parts, set(own)
        anchors = [i for i in own if self.parts[i].op.kind != "map"]
        kinds = {kind_of(self.parts[i]) for i in anchors}
        chained = any(order.behind[i] for i in anchors) or not kinds.issubset(SEPARATE)
        self.anchors = anchors[:1] if chained else anchors
        self.slot = {index: number for number, index in enumerate(self.anchors)}
        self.stage: dict[int, int] = {}

    def places(self) -> dict[int, tuple[int, int, int]]:
        """For each part its slot, where in it that is done, and of how many elements it is, if that
        is not in the kernel of an anchor.
        """
        if not self.anchors:
            return {i: (0, BEFORE, self.size(i)) for i in self.own}
        self.find_slots()
        self.find_stages()
        return {
            i: (self.slot[i], self.stage[i], 0 if self.stage[i] == WITHIN else self.size(i))
            for i in self.own
        }

    def size(self, index: int) -> int:
        """Elements of what a part makes."""
        return self.parts[index].outputs[0].type.size

    def made_by(self, index: int) -> list[int]:
        """The parts of the level that a part reads from."""
        makers = (self.order.makers.get(v.name) for v in self.parts[index].inputs)
        return [maker for maker in makers if maker in self.within]

    def readers(self, index: int) -> list[int]:
        """The parts of the level that read from a part."""
        return [reader for reader in self.order.readers[index] if reader in self.within]

    def find_slots(self) -> None:
        """What follows anchors is in the slot of the last of these, what leads to others in that of
        the first; the rest is where what it reads is made.
        """
        for index in self.own:
            if index not in self.slot and self.order.follows_anchor(index):
                slots = (self.slot[m] for m in self.made_by(index) if m in self.slot)
                self.slot[index] = max(slots, default=0)
        self.leading = set[int]()
        for index in reversed(self.own):
            slots = [self.slot[r] for r in self.readers(index) if r in self.slot]
            if index not in self.slot and slots:
                self.slot[index] = min(slots)
                self.leading.add(index)
        for index in self.own:
            if index not in self.slot:
                self.slot[index] = max((self.slot[m] for m in self.made_by(index)), default=0)

    def find_stages(self) -> None:
        """Where in its slot each part is done: nothing after what reads it."""
        taken = self.taken()
        for index in reversed(self.own):
            self.stage[index] = WITHIN
            if index in self.leading:
                own = [r for r in self.readers(index) if self.slot[r] == self.slot[index]]
                early = any(self.stage[r] == BEFORE for r in own)
                self.stage[index] = BEFORE if early else self.stage_of(index, index in taken)
        for index in self.own:
            if index in self.leading or self.order.follows_anchor(index):
                continue
            makers = self.made_by(index)
            stages = [self.stage[m] for m in makers if self.slot[m] == self.slot[index]]
            least, fits = max(stages, default=BEFORE), self.fits_rows(index)
            within = WITHIN if fits else AFTER if least == WITHIN else BEFORE
            self.stage[index] = max(least, within)

    def taken(self) -> set[int]:
        """The parts that lead to what an anchor of their slot takes as rows, and to other operands
        of an anchor that makes none of its own.
        """
        found = set[int]()
        for anchor in self.anchors:
            part = self.parts[anchor]
            wanted = part.inputs
            if "head" in part.op.takes:
                rows = part.inputs[part.op.rows_at]
                wanted = tuple(v for v in wanted if v.type.shape == rows.type.shape)
            makers = (self.order.makers.get(v.name) for v in wanted)
            found |= {m for m in makers if m in self.leading and self.slot[m] == self.slot[anchor]}
        for index in reversed(self.own):
            if index in found:
                own = (m for m in self.made_by(index) if self.slot[m] == self.slot[index])
                found |= {m for m in own if m in self.leading}
        return found

    def stage_of(self, index: int, taken: bool) -> int:
        """Where what leads to an anchor or to its tail is done."""
        op, shape = self.anchor(index).op, shape_of(self.parts[index])
        if taken:
            return WITHIN if "head" not in op.takes or self.fits_rows(index) else BEFORE
        read = [r for r in self.readers(index) if self.slot[r] == self.slot[index]]
        ends = all(self.order.follows_anchor(r) or self.order.ends[r] for r in read)
        if not ends or self.anchors[self.slot[index]] in read:
            return BEFORE
        if "tail" not in op.takes or shape != shape_of(self.anchor(index)):
            return BEFORE
        # A kernel with a head makes it there, should it be a result, and again in the tail.
        self.order.ends[index] = not self.fits_rows(index)
        return WITHIN

    def anchor(self, index: int) -> Node:
        """The anchor of a part's slot."""
        return self.parts[self.anchors[self.slot[index]]]

    def fits_rows(self, index: int) -> bool:
        """Whether the kernel of the anchor makes what a part does before it."""
        anchor, part = self.anchor(index), self.parts[index]
        rows = anchor.inputs[anchor.op.rows_at].type
        if "head" not in anchor.op.takes or part.outputs[0].type.size != rows.size:
            return False
        if shape_of(part) == rows.shape:
            return True
        columns = (rows_of(anchor).shape or (1,))[-1]
        return all(runs_by_rows(part, value, columns) for value in part.inputs)
