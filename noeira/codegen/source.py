"""A rendered translation unit: the text between code generation and the compiler."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from noeira.codegen.language import Language

if TYPE_CHECKING:
    from noeira.codegen.c.parts import Sections
    from noeira.ir.plan import Plan


@dataclass(frozen=True)
class Source:
    """One unit of C or CUDA text with the plans that it serves.

    `language` is what it is written in, `name` the program's name (for messages), `plans` the text
    form of the plans, one after the other. `sections` is there if parts of the text can be compiled
    at the same time, `parsed` are the plans themselves where they are at hand; neither changes the
    unit.
    `symbols`, for CUDA, are the names of the kernels of each plan's calls.
    """

    language: Language
    name: str
    text: str
    plans: str
    sections: Sections | None = field(default=None, compare=False, repr=False)
    parsed: tuple[Plan, ...] = field(default=(), compare=False, repr=False)
    symbols: tuple[tuple[str, ...], ...] = field(default=(), compare=False, repr=False)

    @cached_property
    def code(self) -> str:
        """What there is to compile in it, each line where it is in the text: all but comments and
        the plans that it carries, which change where nothing else does (with a learning rate, with
        the name of the network).
        """
        from noeira.codegen.definitions import without_comment_lines
        from noeira.codegen.embedded import split_plans

        return without_comment_lines(split_plans(self.text)[0])

    @cached_property
    def digest(self) -> str:
        """64 hexadecimal digits over language, text and plans; the name is a label and does not
        count.
        """
        state = hashlib.sha256()
        for part in (self.language.name, self.text, self.plans):
            data = part.encode()
            state.update(b"%d\n" % len(data))
            state.update(data)
        return state.hexdigest()
