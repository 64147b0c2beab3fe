"""The prelude of a C unit: the types and functions that its kernels call, and no others."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from noeira.codegen import elements
from noeira.codegen.c.isa import ISA
from noeira.codegen.elements import COMPUTED
from noeira.codegen.environment import template
from noeira.codegen.preludes import (
    Definition,
    chosen,
    found,
    philox_numbers,
    pieces,
    random_definitions,
    rounding_definitions,
)

FOLDER = "c/prelude"
# Maths of f32 with fused multiply-add; libm has what is missing there, and all other maths.
OWN_MATHS, LIBM = f"{FOLDER}/maths_*.c.j2", f"{FOLDER}/libm*.c.j2"


def prelude(isa: ISA, used: frozenset[str]) -> str:
    """The definitions of the names in `used`, and what those need in turn, as C text for `isa`.

    `used` may hold any identifiers, for instance all of a unit's (`identifiers(text)`): those that
    the prelude does not define are ignored. A dtype, `f32` or `f64`, stands for all its basics.
    """
    return "\n".join([head(isa), *chosen(definitions(isa), used)])


def head(isa: ISA) -> str:
    """What every unit begins with."""
    return template(f"{FOLDER}/vector_head.c.j2").render(isa=isa)


@lru_cache
def everything(isa: ISA) -> str:
    """All that the prelude can define for `isa`: what a kernel's text means is decided by it."""
    return "\n".join([head(isa), *(d.text for d in definitions(isa))])


@lru_cache
def definitions(isa: ISA) -> tuple[Definition, ...]:
    """All definitions for `isa`, each after those it needs."""
    made = random_definitions() + pieces(f"{FOLDER}/bits.c.j2", None) + rounding_definitions()
    for element in COMPUTED:
        names: dict[str, object] = {"isa": isa, "element": element, "t": element.dtype}
        names["lanes"] = isa.lanes(element.dtype)
        made += pieces(f"{FOLDER}/vector.c.j2", element.dtype, **names)
        own = found(OWN_MATHS, **names) if element.dtype == "f32" and isa.fma else []
        known = {name for item in own for name in item.defines}
        made += [*own, *(item for item in found(LIBM, **names) if not item.defines & known)]
        rounds = transposition(isa.lanes(element.dtype))
        made += pieces(f"{FOLDER}/pack.c.j2", None, rounds=rounds, **names)
    for stored, wide in elements.STORED:
        given: dict[str, object] = {"isa": isa, "s": stored, "t": wide}
        given["form"], lanes = elements.form(stored.dtype, wide.dtype), isa.lanes(wide.dtype)
        given |= {"lanes": lanes, "stored_bytes": lanes * stored.bytes}
        made += pieces(f"{FOLDER}/stored.c.j2", None, **given)
    numbers = philox_numbers()
    made += pieces(f"{FOLDER}/uniform.c.j2", None, isa=isa, computed=COMPUTED, **numbers)
    return tuple(made)


@dataclass(frozen=True)
class Swap:
    """A round of the transposition of a block in registers: of vectors that lie `half` apart the
    lanes that both become, those of the second counted on from those of the first.
    """

    half: int
    upper: tuple[int, ...]
    lower: tuple[int, ...]


def transposition(lanes: int) -> tuple[Swap, ...]:
    """The rounds, each of which swaps the off-diagonal quarters of all sub-blocks."""
    found, half = list[Swap](), lanes // 2
    while half:
        firsts = [lane // half % 2 == 0 for lane in range(lanes)]
        pairs = list(enumerate(firsts))
        upper = tuple(lane if first else lanes + lane - half for lane, first in pairs)
        lower = tuple(lane + half if first else lanes + lane for lane, first in pairs)
        found.append(Swap(half, upper, lower))
        half //= 2
    return tuple(found)
