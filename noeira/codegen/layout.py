"""Indentation of generated C by its braces, so that templates and macros can be nested freely."""

from __future__ import annotations

import re

# A statement that governs the line after it, if it opens no block.
GOVERNS = re.compile(r"(for|if|else|while)\b")


def laid_out(text: str) -> str:
    """The text with four spaces a level, and empty lines only between functions, one at a time.

    A block opens with a brace at the end of a line and closes with one at the start of a line.
    """
    lines, levels, pending = list[str](), [0], 0
    for line in map(str.strip, text.splitlines()):
        if not line:
            if len(levels) == 1 and lines and lines[-1]:
                lines.append("")
            continue
        if line.startswith("}"):
            pending = levels.pop() - 1 - levels[-1]
        level = levels[-1] + pending
        lines.append("    " * level + line if not line.startswith("#") else line)
        if line.endswith("{"):
            levels.append(level + 1)
            pending = 0
        elif GOVERNS.match(line) and not line.endswith(";"):
            pending += 1
        elif not line.startswith("//"):
            pending = 0
    return "\n".join(lines).rstrip("\n") + "\n"
