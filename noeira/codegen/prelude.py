"""The prelude of a unit: the types and functions that its kernels call, and no others."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from noeira.codegen.environment import environment
from noeira.codegen.target import ACCESS_BYTES, ISA

OWN_MATHS = ("maths_exp.c.j2", "maths_log.c.j2", "maths_erf.c.j2", "maths_normal.c.j2")
LIBM_MATHS = ("maths_libm.c.j2",)
PACK = "pack.c.j2"
DEVICE = ("device.cu.j2", "device_maths.cu.j2")
DEVICE_COMMON = ("device_bytes.cu.j2",)
# The same text in all languages.
RANDOM = "random.c.j2"


@dataclass(frozen=True)
class Element:
    """The C names of a dtype: `suffix` ends libm functions and literals, `x86` its intrinsics."""

    dtype: str
    ctype: str
    bits: int
    suffix: str
    x86: str


ELEMENTS = (
    Element("f32", "float", 32, suffix="f", x86="ps"),
    Element("f64", "double", 64, suffix="", x86="pd"),
)


@dataclass(frozen=True)
class Definition:
    """A piece of the prelude between blank lines: the names it defines, all in its code, its text.

    `dtype` is set for the basics of a dtype, which are all but its maths.
    """

    defines: frozenset[str]
    mentions: frozenset[str]
    text: str
    dtype: str | None


def prelude(isa: ISA, used: frozenset[str]) -> str:
    """The definitions of the names in `used`, and what those need in turn, as C text for `isa`.

    `used` may hold any identifiers, for instance all of a unit's (`identifiers(text)`): those that
    the prelude does not define are ignored. A dtype, `f32` or `f64`, stands for all its basics.
    """
    header = _render("vector_head.c.j2", isa=isa)
    return "\n".join([header, *chosen(_definitions(isa), used)])


def device_prelude(used: frozenset[str]) -> str:
    """The same for a CUDA unit."""
    return "\n".join([_render("device_head.cu.j2"), *chosen(_device_definitions(), used)])


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


@lru_cache
def everything(isa: ISA) -> str:
    """All that the prelude can define for `isa`: what a kernel's text means is decided by it."""
    return "\n".join([_render("vector_head.c.j2", isa=isa), *(d.text for d in _definitions(isa))])


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


@lru_cache
def _definitions(isa: ISA) -> tuple[Definition, ...]:
    """All definitions for `isa`, each after those it needs."""
    found = _random()
    for element in ELEMENTS:
        names: dict[str, object] = {"isa": isa, "element": element, "t": element.dtype}
        names["lanes"] = isa.lanes(element.dtype)
        found += _pieces("vector.c.j2", element.dtype, **names)
        own_maths = element.dtype == "f32" and isa.fma
        for template in (*(OWN_MATHS if own_maths else LIBM_MATHS), PACK):
            found += _pieces(template, None, **names)
    return tuple(found)


@lru_cache
def _device_definitions() -> tuple[Definition, ...]:
    """All definitions for CUDA."""
    found = _random() + [p for template in DEVICE_COMMON for p in _pieces(template, None)]
    for element in ELEMENTS:
        names: dict[str, object] = {"element": element, "t": element.dtype}
        names["lanes"] = ACCESS_BYTES * 8 // element.bits
        for template in DEVICE:
            found += _pieces(template, None, **names)
    return tuple(found)


def _random() -> list[Definition]:
    """The definitions of random bits."""
    from noeira.ir import random

    numbers = {"multipliers": random.MULTIPLIERS, "weyl": random.WEYL, "rounds": random.ROUNDS}
    return _pieces(RANDOM, None, **numbers)


def _pieces(template: str, dtype: str | None, **names: object) -> list[Definition]:
    """The definitions of one rendered template."""
    pieces = re.split(r"\n{2,}", _render(template, **names).strip("\n"))
    return [_definition(piece + "\n", dtype) for piece in pieces]


def _definition(text: str, dtype: str | None) -> Definition:
    return Definition(defined(text), identifiers(text), text, dtype)


def _render(template: str, **names: object) -> str:
    return environment().get_template(template).render(**names)
