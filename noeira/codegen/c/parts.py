"""Parts of a unit that are compiled at the same time: some have kernels, one has the entries.

The unit stays one text, which a plain call of the compiler builds too. In the parts, functions that
entries call are not `static` but hidden, so that the linker brings both together.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from noeira.codegen.c.isa import ISA
from noeira.codegen.c.prelude import everything
from noeira.codegen.definitions import beginning, functions

# A part more has to be worth reading the headers once more: about as many lines of kernels.
PART_LINES = 250
HIDDEN = '__attribute__((visibility("hidden"))) void'


@dataclass(frozen=True)
class Section:
    """A kernel of a unit.

    digest: of all that decides what is compiled; entered: the functions that entries call, and
    their parameters.
    """

    text: str
    entered: Mapping[str, str]
    digest: str

    @property
    def lines(self) -> int:
        """How much there is to compile."""
        return self.text.count("\n")

    def exported(self) -> str:
        """The kernel's own text for a part, its functions in reach of the entries."""
        return beginning(self.text, self.entered, f"NOINLINE {HIDDEN} ")

    def is_in(self, built: Mapping[str, str]) -> bool:
        """Whether objects hold it, given the digests of what they hold by function."""
        return all(built.get(name) == self.digest for name in self.entered)


@dataclass(frozen=True)
class Sections:
    """A unit in pieces: what every kernel needs, the kernels, and the rest."""

    head: str
    kernels: tuple[Section, ...]
    tail: str


@dataclass(frozen=True)
class Part:
    """A text to compile, and the digests of the kernels in it by function."""

    text: str
    kernels: Mapping[str, str]


def find_sections(
    unit: str, kernels: Sequence[tuple[str, Sequence[str]]], isa: ISA
) -> Sections | None:
    """The sections of a unit in which the texts of those kernels, given with the functions that
    entries call, stand in order; None if a kernel is not written as noeira's are.
    """
    found, start, at = list[Section](), 0, 0
    for text, names in kernels:
        entered = {f.name: f.parameters for f in functions(text) if f.name in names}
        if len(entered) != len(names):
            return None
        at = unit.index(text, at) + len(text)
        start = start or at - len(text)
        digest = hashlib.sha256(f"{everything(isa)}\0{text}".encode()).hexdigest()
        found.append(Section(text, entered, digest))
    return Sections(unit[:start], tuple(found), unit[at:]) if found else None


def parts(sections: Sections, processors: int, built: Mapping[str, str]) -> list[Part]:
    """The parts to compile, the entries first: kernels that are not built yet, in at most as many
    parts as there are processors; no parts at all if that is not worth while.

    built: the digests of the kernels that objects hold, by function.
    """
    missing = [section for section in sections.kernels if not section.is_in(built)]
    lines = sum(section.lines for section in missing)
    count = min(processors, lines // PART_LINES)
    if count < 2 and len(missing) == len(sections.kernels):
        return []
    dealt = [group for group in groups(missing, max(count, 1)) if group]
    return [entries_part(sections), *(kernels_part(sections.head, group) for group in dealt)]


def groups(sections: Sequence[Section], count: int) -> list[list[Section]]:
    """Groups of about the same size, in each the order of the unit: the largest sections are dealt
    out first, each to the group that has least.
    """
    dealt = [list[int]() for _ in range(count)]
    sizes = [0] * count
    for index in sorted(range(len(sections)), key=lambda i: -sections[i].lines):
        least = sizes.index(min(sizes))
        dealt[least].append(index)
        sizes[least] += sections[index].lines
    return [[sections[index] for index in sorted(group)] for group in dealt]


def kernels_part(head: str, sections: Sequence[Section]) -> Part:
    """The part that compiles some kernels."""
    text = "".join([head, *(section.exported() for section in sections)])
    return Part(text, {name: s.digest for s in sections for name in s.entered})


def entries_part(sections: Sections) -> Part:
    """The part that compiles the entries: they only call the kernels."""
    declarations = [
        f"{HIDDEN} {name}({parameters});\n"
        for section in sections.kernels
        for name, parameters in section.entered.items()
    ]
    return Part("".join([*declarations, sections.tail]), {})
