"""What NVIDIA's compilers print: the errors and warnings among what is only of interest."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from noeira.runtime.build.process import MESSAGE_LINES, first_lines

# The first line of what the compiler has to say about a place in the text.
HEAD = re.compile(r"^[^\s(][^(\n]*\(\d+\): (?:\w+ )?(error|warning)\b")
# What the assembler says of every kernel, advice on how to silence a warning, and empty lines.
NOISE = re.compile(r"^(?:ptxas info |ptxas +\. |\s+\d+ bytes stack frame|Remark: |\s*$)")


@dataclass(frozen=True)
class Finding:
    """One error or warning, in the compiler's own words: with the line, and where in it."""

    kind: str
    text: str


def findings(log: str) -> Iterator[Finding]:
    """The errors and warnings about places in the text, in order."""
    lines = list[str]()
    kind = ""
    for line in [*log.splitlines(), ""]:
        head = HEAD.match(line)
        if (head or NOISE.match(line)) and lines:
            yield Finding(kind, "\n".join(lines))
            lines = []
        # What follows the first line, up to an empty one, shows the place.
        if head:
            kind = head[1]
        if head or lines:
            lines.append(line)


def error_text(log: str) -> str:
    """The errors, at most MESSAGE_LINES lines; where none is about a place in the text, all that is
    no noise.
    """
    errors = [one.text for one in findings(log) if one.kind == "error"]
    plain = [line for line in log.splitlines() if not NOISE.match(line)]
    return first_lines("\n".join(errors or plain), MESSAGE_LINES)


def warning_text(log: str) -> str:
    """The warnings, at most MESSAGE_LINES lines; "" if there is none."""
    return first_lines(
        "\n".join(one.text for one in findings(log) if one.kind == "warning"), MESSAGE_LINES
    )
