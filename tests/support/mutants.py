"""Mutants of CUDA kernels: the same text with one mistake that a person might make."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

# A part of a line that is changed: from, to, the new text.
Change = tuple[int, int, str]
OTHER_COMPARISON = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "=="}
# Mistakes that are a matter of one pattern: what is found is replaced by each of these.
PATTERNS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("barrier dropped", r"__sync(threads|warp)\(\);", (";",)),
    ("bound lowered", r"(?<= < )[\w.]+(?![\w.(])", (r"(\g<0> - 1)",)),
    ("thread shifted", r"threadIdx\.x", (r"(\g<0> + 1)",)),
    ("block shifted", r"blockIdx\.x", (r"(\g<0> + 1)",)),
    ("stride changed", r"(?<= \* )\d+(?![\w.])", (r"(\g<0> - 1)", r"(\g<0> + 1)")),
    ("stride changed", r"(?<![\w.+-])\d+(?= \* )", (r"(\g<0> - 1)", r"(\g<0> + 1)")),
    ("step changed", r"(?<=[+-]= )\d+(?![\w.])", (r"(\g<0> - 1)", r"(\g<0> + 1)")),
    ("division changed", r"(?<= [/%] )\d+(?![\w.])", (r"(\g<0> + 1)",)),
    ("offset changed", r"(?<= [+-] )\d+(?![\w.]| \*)", (r"(\g<0> + 1)",)),
    ("offset dropped", r" [+-] \d+(?![\w.]| \*)", ("",)),
    ("start shifted", r"(?<=for \(int )(?!distance)(\w+ = [^;]+)(?=;)", (r"\g<0> + 1",)),
    ("start shifted", r"(?<=int distance = )\w+(?=;)", (r"\g<0> / 2",)),
    ("exchange changed", r"(?<=__shfl_xor_sync\()0xffffffffu", ("0x7fffffffu",)),
    ("exchange changed", r"(?<=__shfl_xor_sync\()team", ("team >> 1", "0xffffffffu")),
    ("exchange changed", r"(?<=, )distance(?=\))", ("distance * 2",)),
    ("exchange changed", r"__shfl_xor_sync", ("__shfl_down_sync",)),
    ("initial value changed", r"(?<= = )0(?=[,;])", ("1",)),
    # Not next to 0 as the bits of a float either.
    ("initial value changed", r"(?<= = \{)(?=\};)", ("1000000000",)),
    ("initial value changed", r"-INFINITY", ("INFINITY",)),
    ("addition changed", r"(?<!_from )\+=(?= [^;]*;$)", ("=", "-=")),
    ("addition changed", r"-=(?= [^;]*;$)", ("+=",)),
)
# `f32v x[4]` declares, `x[4]` is an element.
DECLARED = re.compile(r"(?<![.\w])(?!return )[a-z]\w* (\w+)(?:\[[^]]*\])+(?= =|;)")
ACCESS = re.compile(r"\b(?:load|store)_f\d+x(\d)\(")
BEFORE_CONDITIONS = (" = ", "+= ", "(", "[", "return ", ", ", " : ", " ? ")
SKIPPED = ("//", "#", 'extern "C"', "static __device__", "INLINE")


@dataclass(frozen=True)
class Mutant:
    """A text with one change. `key` names it: the kind and the line, the change in it marked as
    `[-old-]{+new+}`; a second change that reads the same ends in (2).
    """

    kind: str
    key: str
    line: int
    text: str


def mutants_of(text: str) -> list[Mutant]:
    """All mutants of a kernel's text, in the order of lines."""
    lines, seen, found = text.splitlines(), Counter[str](), list[Mutant]()
    for number, line in enumerate(lines):
        if line.strip().startswith(SKIPPED):
            continue
        for kind, (start, stop, new) in changes(line):
            before, old, after = line[:start], line[start:stop], line[stop:]
            marked = f"[-{old}-]" * bool(old) + f"{{+{new}+}}" * bool(new)
            key = f"{kind}: {(before + marked + after).strip()}"
            seen[key] += 1
            key += f" ({seen[key]})" * (seen[key] > 1)
            changed = [*lines[:number], before + new + after, *lines[number + 1 :]]
            found.append(Mutant(kind, key, number + 1, "\n".join(changed) + "\n"))
    return found


def changes(line: str) -> Iterator[tuple[str, Change]]:
    """The mistakes one can make in a line, by kind."""
    for kind, pattern, texts in PATTERNS:
        for match in re.finditer(pattern, line):
            for new in texts:
                yield kind, (*match.span(), match.expand(new))
    for match in re.finditer(r"(?<= )([<>=!]=|[<>])(?= )", line):
        yield "comparison changed", (*match.span(), OTHER_COMPARISON[match[0]])
    for change in guards(line):
        yield "guard dropped", change
    for change in parts(line):
        yield "part of a guard dropped", change
    for change in shifts(line):
        yield "index shifted", change


def guards(line: str) -> Iterator[Change]:
    """Conditions that come to be always true: of `if`, and before a question mark."""
    for match in re.finditer(r"\bif \(", line):
        yield match.end(), closing(line, match.end()), "true"
    for match in re.finditer(r" \? ", line):
        yield beginning(line, match.start(), BEFORE_CONDITIONS), match.start(), "true"


def parts(line: str) -> Iterator[Change]:
    """Operands of && and || that go, with their operator."""
    for match in re.finditer(r" (&&|\|\|) ", line):
        start = beginning(line, match.start(), (*BEFORE_CONDITIONS, "|| ", "&& "))
        yield start, match.end(), ""
        yield match.start(), ending(line, match.end(), (")", " ? ", ";", " && ", " || ")), ""


def shifts(line: str) -> Iterator[Change]:
    """Elements and whole accesses of memory whose neighbour is taken instead."""
    declared = [match.span() for match in DECLARED.finditer(line)]
    for match in re.finditer(r"\[(?=[^]])", line):
        if not any(start < match.start() < stop for start, stop in declared):
            end = closing(line, match.end())
            yield end, end, " + 1"
    for match in ACCESS.finditer(line):
        end = ending(line, match.end(), (",", ")"))
        yield end, end, f" + {match[1]}"


def closing(line: str, start: int) -> int:
    """Where the bracket closes that opened before `start`."""
    return ending(line, start, (")", "]"))


def ending(line: str, start: int, ends: tuple[str, ...]) -> int:
    """The first place from `start` on, outside brackets that open there, where one of `ends` is."""
    depth = 0
    for i in range(start, len(line)):
        if depth == 0 and line.startswith(ends, i):
            return i
        depth += (line[i] in "([") - (line[i] in ")]")
    return len(line)


def beginning(line: str, stop: int, starts: tuple[str, ...]) -> int:
    """The last place up to `stop`, outside brackets that close there, which one of `starts` is
    before.
    """
    depth = 0
    for i in range(stop - 1, -1, -1):
        if depth == 0 and line[: i + 1].endswith(starts):
            return i + 1
        depth += (line[i] in ")]") - (line[i] in "([")
    return len(line) - len(line.lstrip())
