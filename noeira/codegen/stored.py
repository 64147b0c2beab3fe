"""Whether the text of a kernel takes 16-bit floats for what they are: bits, which are no numbers
before they are widened.
"""

from __future__ import annotations

import re

# Where arguments are named that the statements may not use.
HEADS_AND_MARKS = re.compile(
    r"^\s*(?:static NOINLINE|extern \"C\")[^{]*\{|\(void\)\w+;", re.MULTILINE
)


def statements_of(text: str) -> str:
    """The text without the heads of functions, and without marks of what these do not use."""
    return HEADS_AND_MARKS.sub("", text)


def is_raw(text: str, argument: str, dtype: str) -> bool:
    """Whether a text uses an argument, of 16-bit floats, in another way than by a load, a store, or
    as an element that is widened or was narrowed.
    """
    read = rf"\b(?:load|store|stream|widen)_{dtype}\w*\(\s*{argument}\b"
    written = rf"\b{argument}\[[^;=]*\] = narrow_{dtype}\("
    declared = rf"\*{argument} = "
    rest = re.sub(f"{read}|{written}|{declared}", "", statements_of(text))
    return re.search(rf"\b{argument}\b", rest) is not None
