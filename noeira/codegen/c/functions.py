"""Functions that several kernels of a unit have in common: the first keeps them, the rest call.

A search builds many kernels that differ in how a product is cut, but not in their tiles.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from noeira.codegen.definitions import (
    Function,
    defined,
    functions,
    identifiers,
    renamed,
    uncommented,
)


def share_functions(kernels: Sequence[tuple[str, Sequence[str]]]) -> list[str]:
    """The texts of kernels, given with the functions that entries call, without what an earlier one
    has: functions that need nothing else of their kernel.
    """
    known: dict[str, str] = {}
    found = list[str]()
    for whole, entered in kernels:
        text = whole
        for function in leaves(whole, entered):
            code = f"{function.parameters}) {uncommented(function.code)}"
            owner = known.setdefault(code, function.name)
            if owner != function.name:
                text = renamed(text.replace(function.text, ""), function.name, owner)
        found.append(text)
    return found


def leaves(text: str, entered: Sequence[str]) -> Iterator[Function]:
    """The functions of a kernel that entries do not call, and that need nothing else of the
    kernel.
    """
    all_of_it = functions(text)
    own = defined(text) | {function.name for function in all_of_it}
    for function in all_of_it:
        used = identifiers(f"{function.parameters} {function.code}")
        if function.name not in entered and not own & used:
            yield function
