"""How C sorts random keys."""

from __future__ import annotations

from dataclasses import dataclass

from noeira.codegen.c.anchor import CAnchor, SplitCut, splits
from noeira.codegen.c.isa import ISA
from noeira.codegen.cut import written
from noeira.codegen.scratch import Room
from noeira.ir.body import Body
from noeira.ir.plan import Stage


@dataclass(frozen=True)
class Digits:
    """Keys are sorted by so many of their upper `bits` at a time, from bit `first` on."""

    first: int
    bits: int

    @property
    def count(self) -> int:
        """Values of a digit."""
        return 1 << self.bits

    @property
    def mask(self) -> int:
        """The bits of a digit."""
        return self.count - 1


# Three digits of 11 bits, the upper 33 bits of a key: few are alike in these.
DIGITS = Digits(first=64 - 3 * 11, bits=11)


class Shuffle(CAnchor):
    """The keys, which threads share; then one thread sorts them to and fro between two places."""

    stem = "shuffle"

    def rule(self, body: Body, machine: ISA) -> SplitCut:
        return SplitCut(splits(body.outputs[0].type.size))

    def stages(self, body: Body, cut: SplitCut, machine: ISA) -> tuple[Stage, ...]:
        return Stage("keys", written(cut)), Stage("sort")

    def scratch(self, body: Body, cut: SplitCut) -> tuple[Room, ...]:
        samples = body.outputs[0].type.size
        # The other place for numbers is the result.
        rooms = Room("keys", "u64", samples), Room("other_keys", "u64", samples)
        return *rooms, Room("numbers", "i32", samples)

    def view(self, body: Body, machine: ISA) -> Digits:
        return DIGITS
