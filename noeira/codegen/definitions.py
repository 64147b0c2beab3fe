"""The pieces that preludes are made of: definitions of types and functions, of which a unit gets
those that it uses.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from noeira.codegen.environment import template

# The same text in all languages.
RANDOM = "lib/random.c.j2"


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


def identifiers(text: str) -> frozenset[str]:
    """Every identifier of a C text outside its comments."""
    code = re.sub(r"//[^\n]*|/\*.*?\*/", " ", text, flags=re.DOTALL)
    return frozenset(re.findall(r"[A-Za-z_]\w*", code))


def defined(text: str) -> frozenset[str]:
    """The names that a C text defines at its outermost level for use inside the unit: functions,
    types, macros and constants.
    """
    functions = re.findall(r"^(?:IN|OUT)LINE [\w ]+?\*?(\w+)\(", text, flags=re.MULTILINE)
    types = re.findall(r"^typedef .*? (\w+)(?: __attribute__.*)?;$", text, flags=re.MULTILINE)
    macros = re.findall(r"^#define (\w+)", text, flags=re.MULTILINE)
    constants = re.findall(r"^static const [\w ]+?\*?(\w+)[\[ ]", text, flags=re.MULTILINE)
    return frozenset(functions + types + macros + constants)


def pieces(name: str, dtype: str | None, **given: object) -> list[Definition]:
    """The definitions of one rendered template."""
    found = re.split(r"\n{2,}", template(name).render(**given).strip("\n"))
    return [definition(piece + "\n", dtype) for piece in found]


def definition(text: str, dtype: str | None) -> Definition:
    """A piece of a text."""
    return Definition(defined(text), identifiers(text), text, dtype)


def random_definitions() -> list[Definition]:
    """The definitions of random bits."""
    from noeira.ir import random

    numbers = {"multipliers": random.MULTIPLIERS, "weyl": random.WEYL, "rounds": random.ROUNDS}
    return pieces(RANDOM, None, **numbers)
