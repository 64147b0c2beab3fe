"""A rendered translation unit: the text between code generation and the compiler."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True)
class Source:
    """One unit of C or CUDA text with the plans that it serves.

    `target` is `c` or `cuda`, `name` the program's name (for messages), `plans` the text form of
    the plans, one after the other.
    """

    target: str
    name: str
    text: str
    plans: str

    @cached_property
    def digest(self) -> str:
        """64 hexadecimal digits over target, text and plans; the name is a label and does not
        count.
        """
        state = hashlib.sha256()
        for part in (self.target, self.text, self.plans):
            data = part.encode()
            state.update(b"%d\n" % len(data))
            state.update(data)
        return state.hexdigest()
