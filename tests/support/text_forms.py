"""What tests of the text forms read."""

from __future__ import annotations

import re
from typing import Any

from hypothesis import strategies as st


def damaged(draw: Any, text: str) -> str:
    """The text with one line damaged."""
    lines = text.split("\n")
    at = draw(st.integers(0, len(lines) - 1))
    line = lines[at]
    words = re.findall(r"\s+|\w+|.", line)
    match draw(st.sampled_from(["cut", "swap", "twice", "drop", "random", "replace", "move"])):
        case "cut":
            start = draw(st.integers(0, len(line)))
            lines[at] = line[:start] + line[draw(st.integers(start, len(line))) :]
        case "swap" if words:
            i, j = (draw(st.integers(0, len(words) - 1)) for _ in range(2))
            words[i], words[j] = words[j], words[i]
            lines[at] = "".join(words)
        case "twice":
            lines.insert(at, line)
        case "drop":
            del lines[at]
        case "random":
            start = draw(st.integers(0, len(line)))
            noise = draw(st.binary(min_size=1, max_size=6)).decode("latin-1")
            lines[at] = line[:start] + noise + line[start:]
        case "replace" if words:
            token = draw(st.sampled_from(sorted(set(re.findall(r"\w+|.", text)))))
            words[draw(st.integers(0, len(words) - 1))] = token
            lines[at] = "".join(words)
        case "move":
            lines.insert(draw(st.integers(0, len(lines) - 1)), lines.pop(at))
    return "\n".join(lines)
