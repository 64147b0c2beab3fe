"""Messages about parts that do not go together: the type as the user wrote it, the parts
underlined, a note under each.

    Sequential[LinearReLU[784, 256], Linear[128, 10]]
               ~~~~~~~~~~~~~~~~~~~~  ~~~~~~~~~~~~~~~
               gives (*, 256)        takes (*, 128)

A line that is too long is shortened to the marked parts and as many neighbours as fit.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

WIDTH = 100
INDENT = "    "
ELLIPSIS = "…"


def underlined(owner: str, parts: Sequence[str], notes: Mapping[int, str]) -> str:
    """`owner[parts]` in `WIDTH` columns, the parts that have a note underlined."""
    kept = fitting(owner, parts, sorted(notes))
    if kept is None:
        return stacked(owner, parts, notes)
    line, columns = rendered(owner, parts, kept)
    marks = marked((columns[i], "~" * len(parts[i])) for i in notes)
    return "\n".join(INDENT + text for text in (line, marks, *note_lines(parts, notes, columns)))


def fitting(owner: str, parts: Sequence[str], marked_parts: Sequence[int]) -> list[int] | None:
    """The parts to show: the marked ones and what fits beside them; None if they do not fit."""
    kept = list(marked_parts)
    if not fits(owner, parts, kept):
        return None
    distance = {i: min(abs(i - m) for m in marked_parts) for i in range(len(parts))}
    for index in sorted(set(distance) - set(kept), key=lambda i: (distance[i], i)):
        if fits(owner, parts, sorted([*kept, index])):
            kept = sorted([*kept, index])
    return kept


def fits(owner: str, parts: Sequence[str], kept: Sequence[int]) -> bool:
    """Whether the line with these parts is short enough."""
    return len(INDENT + rendered(owner, parts, kept)[0]) <= WIDTH


def rendered(owner: str, parts: Sequence[str], kept: Sequence[int]) -> tuple[str, dict[int, int]]:
    """The line, an ellipsis for each run left out, and the column where each part begins."""
    columns, line, before = dict[int, int](), f"{owner}[", -1
    for position, index in enumerate(kept):
        if position:
            line += ", "
        if index != before + 1:
            line += f"{ELLIPSIS}, "
        columns[index] = len(line)
        line += parts[index]
        before = index
    return line + (f", {ELLIPSIS}]" if before != len(parts) - 1 else "]"), columns


def marked(pieces: object) -> str:
    """Texts at their columns, on one line."""
    line = ""
    for column, text in sorted(pieces):  # type: ignore[call-overload]
        line = line.ljust(column) + text
    return line


def note_lines(
    parts: Sequence[str], notes: Mapping[int, str], columns: Mapping[int, int]
) -> list[str]:
    """The notes under their parts, on one line, or the last one first if they would overlap."""
    order = sorted(notes)
    pairs = itertools.pairwise(order)
    if not any(columns[a] + len(notes[a]) + 2 > columns[b] for a, b in pairs):
        return [marked((columns[i], notes[i]) for i in order)]
    lines = []
    while order:
        last = order.pop()
        lines.append(marked([*((columns[i], "|") for i in order), (columns[last], notes[last])]))
    return lines


def stacked(owner: str, parts: Sequence[str], notes: Mapping[int, str]) -> str:
    """One part a line, for parts too long to stand side by side."""
    widest = max(len(note) for note in notes.values())
    room = max(WIDTH - len(INDENT) * 2 - widest - 2, 30)
    lines, before = [f"{INDENT}{owner}["], -1
    shown = {i: shortened(parts[i], room) for i in sorted(notes)}
    column = max(map(len, shown.values())) + 2
    for index, text in shown.items():
        if index != before + 1:
            lines.append(f"{INDENT * 2}{ELLIPSIS},")
        lines += [
            f"{INDENT * 2}{text.ljust(column)}{notes[index]}",
            f"{INDENT * 2}{'~' * len(text)}",
        ]
        before = index
    return "\n".join(
        [*lines, f"{INDENT}]" if before == len(parts) - 1 else f"{INDENT * 2}{ELLIPSIS}]"]
    )


def shortened(text: str, room: int) -> str:
    """A type's text with the parts at its end left out."""
    if len(text) <= room:
        return text
    cut = text.rfind("], ", 0, room - 3)
    return f"{text[: cut + 2]} {ELLIPSIS}]" if cut > 0 else text[: room - 1] + ELLIPSIS


def sentence(text: str) -> str:
    """A sentence below a picture; empty if there is nothing to say."""
    return f"\n\n  {text[0].upper()}{text[1:]}." if text else ""


def change(*alternatives: tuple[str, str]) -> str:
    """`Change A to B, or C to D.`; empty if there is nothing to change."""
    if not alternatives:
        return ""
    return "\n\n  Change " + ", or ".join(f"{old} to {new}" for old, new in alternatives) + "."
