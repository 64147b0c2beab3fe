"""Parts of a unit that are compiled on their own: some have kernels, one has the entries, one the
plans.

The unit stays one text, which a plain call of the compiler builds too. In the parts, functions that
entries call are not `static` but hidden, so that the linker brings both together. It knows each by
the digest of what is compiled: parts of other units that have a kernel, too, fit as well as one's
own, whatever else is in them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from noeira.codegen.c.isa import ISA
from noeira.codegen.c.prelude import everything
from noeira.codegen.definitions import beginning, functions, without_comment_lines
from noeira.codegen.embedded import SYMBOL, split_plans

# A part more has to be worth reading the headers once more: about as many lines of kernels.
PART_LINES = 250
# What a part says of a function that entries call: where a part has it, others may have it as well.
DECLARED = '__attribute__(({attributes})) void {name}({parameters}) __asm__("{symbol}");\n'
CALLED, DEFINED = 'visibility("hidden")', 'weak, visibility("hidden")'


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

    def declared(self, attributes: str) -> Iterator[str]:
        """The declarations of its functions that entries call."""
        for name, parameters in self.entered.items():
            symbol = f"{name}.{self.digest[:16]}"
            yield DECLARED.format(
                attributes=attributes, name=name, parameters=parameters, symbol=symbol
            )

    def exported(self) -> str:
        """The kernel's own text for a part, its functions in reach of the entries."""
        own = beginning(self.text, self.entered, "NOINLINE void ")
        return "".join([*self.declared(DEFINED), own])


@dataclass(frozen=True)
class Sections:
    """A unit in pieces: what every kernel needs, the kernels, the entries, and the plans."""

    head: str
    kernels: tuple[Section, ...]
    entries: str
    plans: str


@dataclass(frozen=True)
class Part:
    """A text to compile, and the digests of what other units may take from it."""

    text: str
    holds: tuple[str, ...] = ()


def find_sections(
    unit: str, prelude: str, kernels: Sequence[tuple[str, Sequence[str]]], isa: ISA
) -> Sections | None:
    """The sections of a unit in which a prelude and the texts of those kernels, given with the
    functions that entries call, stand in order; None if a kernel is not written as noeira's are.
    """
    code, plans = split_plans(unit)
    found, at = list[Section](), 0
    for text, names in kernels:
        entered = {f.name: f.parameters for f in functions(text) if f.name in names}
        if len(entered) != len(names):
            return None
        at = code.index(text, at) + len(text)
        found.append(Section(text, entered, digest(everything(isa), DECLARED, text)))
    entries = without_comment_lines(code[at:])
    return Sections(f"{prelude}\n", tuple(found), entries, plans) if found else None


def digest(*texts: str) -> str:
    """64 hexadecimal digits over texts."""
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()


def wanted(sections: Sections) -> tuple[str, ...]:
    """The digests of what a unit can take from others: its kernels and its entries."""
    return *(section.digest for section in sections.kernels), *entries_part(sections).holds


def parts(sections: Sections, processors: int, known: Collection[str] = ()) -> list[Part]:
    """The parts to compile: the plans, the entries, and the kernels, in at most as many parts as
    there are processors; of the last two only what has none of the digests that are known.
    """
    entries = entries_part(sections)
    missing = [section for section in sections.kernels if section.digest not in known]
    count = min(processors, sum(section.lines for section in missing) // PART_LINES)
    return [
        Part(f"extern const char {SYMBOL}[];\n{sections.plans}\n"),
        *(part for part in [entries] if part.holds[0] not in known),
        *(kernels_part(sections.head, group) for group in groups(missing, max(count, 1)) if group),
    ]


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
    return Part(text, tuple(section.digest for section in sections))


def entries_part(sections: Sections) -> Part:
    """The part that compiles the entries: they only call the kernels."""
    declared = (line for section in sections.kernels for line in section.declared(CALLED))
    text = "".join([*declared, sections.entries])
    return Part(text, (digest(text),))
