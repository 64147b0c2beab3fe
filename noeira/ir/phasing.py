"""In which phase of its kernel each part is done.

A *phase* is one loop: element-wise ops over one number of elements; or an *anchor*, a part that is
not element-wise, with a *head*, ops over its rows before it, and a *tail*, ops over its result
after it, as far as its kernel takes them. Phases run one after the other.

1. Levels. A part is done in the level of what it reads; but if that follows an anchor of the level
   whose tail cannot take the part, it waits for the next level. Element-wise ops that only later
   levels read are done there, so that nothing is stored for them.
2. Slots. Each anchor of a level has a slot. What follows anchors is in the slot of the last of
   these; what leads to something with a slot is in the first such; the rest is where what it reads
   is made.
3. Stages. What follows the anchor of its slot is in the tail. What leads there is done as late as
   what reads it allows: in the tail, in the head, or, where these do not take it, before the
   kernel. So is what others read, too, before a kernel that cannot store what its head makes. The
   rest is done as early as what it reads allows: in the head, in the tail, or, where these do not
   take it, before or after. Ops before or after are a phase for each number of
   elements, fewer first. So are those of a level without an anchor.

For example, all f32[4, 5] but for `%mean`, `%old` and `%new`, which are f32[5]:

    %mean = sum(%x) {axes = [0]}      level 0   slot 0   anchor   phase 0
    %new = add(%mean, %old)           level 1   slot 1   before   phase 1
    %apart = subtract(%x, %mean)      level 1   slot 1   head     phase 2
    %y = softmax(%apart)              level 1   slot 1   anchor   phase 2
    %mask = tanh(%z)                  level 1   slot 1   tail     phase 2
    %masked = multiply(%y, %mask)     level 1   slot 1   tail     phase 2
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from noeira.ir.broadcasting import runs_by_columns, walk_of
from noeira.ir.graph import Node, Value

# The stages of a slot, in order; from HEAD to TAIL they are one phase, the kernel of the anchor.
BEFORE, HEAD, ANCHOR, TAIL, AFTER = range(5)
# What stands for the number of a part, or of a slot, where there is none.
NONE = -1


class Order:
    """In which phase each part is done, as the text above says. Parts, those that launch, go by
    their numbers. given: what is read outside, as far as it is known.

    reads: the parts that each reads, with the values; readers: those that read it.
    level, slot, stage, phase: of each part.
    follows: the anchor of its level that each is, or is the last that it follows; else NONE.
    anchors: that of each slot, or NONE.
    """

    def __init__(self, parts: Sequence[Node], given: Iterable[Value] = ()) -> None:
        self.given = {value.name for value in given}
        self.parts = seen_through([part.laid for part in parts])
        self.reads, self.readers = links(self.parts)
        self.level, self.follows = self.levels()
        self.slot, self.anchors = self.slots()
        self.stage = self.stages()
        self.phase = self.phases()

    def levels(self) -> tuple[list[int], list[int]]:
        """The level of each part, and the anchor of it that the part follows."""
        level, follows = list[int](), list[int]()
        for number, part in enumerate(self.parts):
            own = max((level[maker] for maker, _ in self.reads[number]), default=0)
            here = (follows[maker] for maker, _ in self.reads[number] if level[maker] == own)
            anchor = max(here, default=NONE)
            if anchor != NONE and not self.can_follow(number, anchor):
                own, anchor = own + 1, NONE
            level.append(own)
            follows.append(anchor if part.kind.element_wise else number)
        for number in reversed(range(len(self.parts))):
            if follows[number] == NONE and self.readers[number]:
                level[number] = min(level[reader] for reader in self.readers[number])
        return level, follows

    def can_follow(self, number: int, anchor: int) -> bool:
        """Whether a part that reads what an anchor or its tail makes can be in the tail."""
        first = self.parts[anchor].outputs[0].name
        read = (value.name for maker, value in self.reads[number] if maker == anchor)
        return all(name == first for name in read) and self.takes(anchor, TAIL, number)

    def takes(self, anchor: int, stage: int, number: int) -> bool:
        """Whether the kernel of an anchor does a part in its head or tail: an element-wise op over
        as many elements, each operand of which runs along rows, or is one element for all of one.
        """
        node, part = self.parts[anchor], self.parts[number]
        wanted = "head" if stage == HEAD else "tail"
        if wanted not in node.op.takes or not part.kind.element_wise:
            return False
        loop, made = node.rows if stage == HEAD else node.outputs[0].type, part.outputs[0].type
        columns = (loop.shape or (1,))[-1]
        walks = (walk_of(value.type.shape, made.shape) for value in part.inputs)
        return made.size == loop.size and all(runs_by_columns(walk, columns) for walk in walks)

    def slots(self) -> tuple[list[int], list[int]]:
        """The slot of each part, and the anchor of each slot."""
        begins, anchors = self.slots_of_levels()
        of_anchor = {anchor: slot for slot, anchor in enumerate(anchors)} | {NONE: NONE}
        slot = [of_anchor[anchor] for anchor in self.follows]
        for number in reversed(range(len(slot))):
            if slot[number] == NONE:
                read = (slot[r] for r in self.beside(number, self.readers[number]))
                slot[number] = min((own for own in read if own != NONE), default=NONE)
        for number, level in enumerate(self.level):
            if slot[number] == NONE:
                made = (slot[m] for m in self.beside(number, (m for m, _ in self.reads[number])))
                slot[number] = max(made, default=begins[level])
        return slot, anchors

    def slots_of_levels(self) -> tuple[list[int], list[int]]:
        """The first slot of each level, and the anchor of each slot. A level without an anchor has
        one slot.
        """
        levels: list[list[int]] = [[] for _ in range(max(self.level) + 1)]
        for number, anchor in enumerate(self.follows):
            if number == anchor:
                levels[self.level[number]].append(number)
        begins, anchors = list[int](), list[int]()
        for own in levels:
            begins.append(len(anchors))
            anchors += own or [NONE]
        return begins, anchors

    def beside(self, number: int, others: Iterable[int]) -> list[int]:
        """Those of other parts that are in the level of one."""
        return [other for other in others if self.level[other] == self.level[number]]

    def stages(self) -> list[int]:
        """The stage of each part."""
        # Until its turn comes the rest is after all others.
        stage = [AFTER] * len(self.parts)
        for number in reversed(range(len(stage))):
            anchor = self.follows[number]
            if anchor == NONE:
                stage[number] = self.latest(number, stage)
            else:
                stage[number] = ANCHOR if anchor == number else TAIL
        for number in range(len(stage)):
            if stage[number] == AFTER:
                stage[number] = self.earliest(number, stage)
        return stage

    def latest(self, number: int, stage: Sequence[int]) -> int:
        """The stage of what leads to the anchor of its slot or to its tail, from those of what
        reads it; AFTER for what does not.
        """
        anchor, last = self.anchors[self.slot[number]], AFTER
        for reader in self.readers[number]:
            if reader == anchor:
                last = min(last, HEAD if self.makes_rows(number, anchor) else BEFORE)
            elif self.slot[reader] == self.slot[number]:
                last = min(last, stage[reader])
        if last == AFTER:
            return AFTER
        fits = (s for s in (TAIL, HEAD) if s <= last and self.takes(anchor, s, number))
        found = next(fits, BEFORE)
        return BEFORE if found == HEAD and not self.stays(number, stage) else found

    def stays(self, number: int, stage: Sequence[int]) -> bool:
        """Whether the anchor of its slot can store what a part before it makes, or only the head
        and the anchor read that.
        """
        slot, node = self.slot[number], self.parts[number]
        if self.parts[self.anchors[slot]].op.stores_head:
            return True
        read_here = all(
            self.slot[reader] == slot and stage[reader] in (HEAD, ANCHOR)
            for reader in self.readers[number]
        )
        return read_here and self.given.isdisjoint(value.name for value in node.outputs)

    def earliest(self, number: int, stage: Sequence[int]) -> int:
        """The stage of the rest, from those of what it reads."""
        anchor, slot = self.anchors[self.slot[number]], self.slot[number]
        made = (stage[maker] for maker, _ in self.reads[number] if self.slot[maker] == slot)
        first = max(made, default=BEFORE)
        if anchor == NONE:
            return BEFORE
        stages = (HEAD, TAIL) if self.parts[anchor].op.stores_head else (TAIL,)
        fits = (s for s in stages if s >= first and self.takes(anchor, s, number))
        return next(fits, BEFORE if first == BEFORE else AFTER)

    def makes_rows(self, number: int, anchor: int) -> bool:
        """Whether an anchor reads what a part makes as the rows that it runs over, and as no other
        operand, which must lie in memory.
        """
        node, made = self.parts[anchor], {value.name for value in self.parts[number].outputs}
        places = [place for place, value in enumerate(node.inputs) if value.name in made]
        return places == [node.rows_at]

    def phases(self) -> list[int]:
        """The number of the phase of each part."""
        places = [
            (slot, ANCHOR, 0) if HEAD <= stage <= TAIL else (slot, stage, part.outputs[0].type.size)
            for part, slot, stage in zip(self.parts, self.slot, self.stage, strict=True)
        ]
        numbers = {place: number for number, place in enumerate(sorted(set(places)))}
        return [numbers[place] for place in places]


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


def links(parts: Sequence[Node]) -> tuple[list[list[tuple[int, Value]]], list[list[int]]]:
    """For each part the parts that it reads, with the values, and those that read it."""
    reads: list[list[tuple[int, Value]]] = []
    readers: list[list[int]] = [[] for _ in parts]
    makers = dict[str, int]()
    for number, part in enumerate(parts):
        own = [(makers[value.name], value) for value in part.inputs if value.name in makers]
        for maker in dict.fromkeys(maker for maker, _ in own):
            readers[maker].append(number)
        reads.append(own)
        makers |= {value.name: number for value in part.outputs}
    return reads, readers
