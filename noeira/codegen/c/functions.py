"""Functions that several kernels of a unit have in common: the first keeps them, the rest call.

A search builds many kernels that differ in how a product is cut, but not in their tiles.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from noeira.codegen.c.parts import FUNCTION
from noeira.codegen.definitions import defined, identifiers


def share_functions(kernels: Sequence[tuple[str, Sequence[str]]]) -> list[str]:
    """The texts of kernels, given with the functions that entries call, without what an earlier one
    has: functions that need nothing else of their kernel.
    """
    known: dict[str, str] = {}
    found = list[str]()
    for whole, entered in kernels:
        text = whole
        for name, code, function in leaves(whole, entered):
            owner = known.setdefault(code, name)
            if owner != name:
                text = re.sub(rf"\b{name}\b", owner, text.replace(function, ""))
        found.append(text)
    return found


def leaves(text: str, entered: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    """The functions of a kernel that entries do not call, and that need nothing else of the kernel:
    the name, the code without comments and name, and the whole text.
    """
    functions = list(FUNCTION.finditer(text))
    own = defined(text) | {match[1] for match in functions}
    for match in functions:
        code = f"{match[2]}) {match[3]}"
        if match[1] not in entered and not own & identifiers(code):
            yield match[1], re.sub(r"//[^\n]*\n", "", code), match[0]
