"""The pieces that preludes are made of: definitions of types and functions, of which a unit gets
those that it uses.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from noeira.codegen.definitions import defined, identifiers
from noeira.codegen.environment import CODEGEN, template

# The same text in all languages.
RANDOM, ROUNDING = "lib/random.c.j2", "lib/rounding.c.j2"


@dataclass(frozen=True)
class Definition:
    """A piece of the prelude between blank lines: the names it defines, all in its code, its text.

    `dtype` is set for the basics of a dtype, which are all but its maths.
    """

    defines: frozenset[str]
    mentions: frozenset[str]
    text: str
    dtype: str | None


def chosen(definitions: Sequence[Definition], used: frozenset[str]) -> list[str]:
    """The texts of the definitions of the names in `used`, and of what those need in turn."""
    owner = {name: item for item in definitions for name in item.defines}
    wanted: set[Definition] = {item for item in definitions if item.dtype in used}
    pending = [owner[name] for name in used if name in owner] + list(wanted)
    while pending:
        item = pending.pop()
        wanted.add(item)
        needed = {owner[name] for name in item.mentions if name in owner}
        pending.extend(needed - wanted)
    return [item.text for item in definitions if item in wanted]


def pieces(name: str, dtype: str | None, **given: object) -> list[Definition]:
    """The definitions of one rendered template."""
    texts = re.split(r"\n{2,}", template(name).render(**given).strip("\n"))
    return [definition(text + "\n", dtype) for text in texts]


def found(pattern: str, **given: object) -> list[Definition]:
    """The definitions of all templates whose names are of a pattern, `c/prelude/maths_*.c.j2`: each
    file's after those of the files that have what it needs.
    """
    from graphlib import TopologicalSorter

    paths = sorted(CODEGEN.glob(pattern))
    files = [pieces(path.relative_to(CODEGEN).as_posix(), None, **given) for path in paths]
    owner = {name: i for i, file in enumerate(files) for item in file for name in item.defines}
    order = TopologicalSorter[int]()
    for i, file in enumerate(files):
        needed = {owner[name] for item in file for name in item.mentions if name in owner}
        order.add(i, *sorted(needed - {i}))
    return [item for i in order.static_order() for item in files[i]]


def definition(text: str, dtype: str | None) -> Definition:
    """A piece of a text."""
    return Definition(defined(text), identifiers(text), text, dtype)


def random_definitions() -> list[Definition]:
    """The definitions of random bits."""
    return pieces(RANDOM, None, **philox_numbers())


def philox_numbers() -> dict[str, object]:
    """The numbers that Philox is made of."""
    from noeira.ir import random

    return {"multipliers": random.MULTIPLIERS, "weyl": random.WEYL, "rounds": random.ROUNDS}


def rounding_definitions() -> list[Definition]:
    """The definitions of how 16-bit floats are rounded."""
    return pieces(ROUNDING, None)
