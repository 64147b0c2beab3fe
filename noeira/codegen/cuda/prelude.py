"""The prelude of a CUDA unit: the types and functions that its kernels call, and no others."""

from __future__ import annotations

from functools import lru_cache

from noeira.codegen import elements
from noeira.codegen.cuda.arch import ACCESS_BYTES
from noeira.codegen.elements import COMPUTED
from noeira.codegen.environment import template
from noeira.codegen.preludes import (
    Definition,
    chosen,
    found,
    pieces,
    random_definitions,
    rounding_definitions,
)

FOLDER = "cuda/prelude"
MATHS = f"{FOLDER}/device_maths*.cu.j2"


def device_prelude(used: frozenset[str]) -> str:
    """The definitions of the names in `used`, and what those need in turn."""
    head = template(f"{FOLDER}/device_head.cu.j2").render()
    return "\n".join([head, *chosen(definitions(), used)])


@lru_cache
def definitions() -> tuple[Definition, ...]:
    """All definitions, each after those it needs."""
    made = random_definitions()
    for name in ("device_bytes", "device_bits"):
        made += pieces(f"{FOLDER}/{name}.cu.j2", None)
    made += rounding_definitions()
    for element in COMPUTED:
        names: dict[str, object] = {"element": element, "t": element.dtype}
        names["lanes"] = ACCESS_BYTES // element.bytes
        made += pieces(f"{FOLDER}/device.cu.j2", None, **names)
        made += found(MATHS, **names)
    for stored, wide in elements.STORED:
        lanes = ACCESS_BYTES // wide.bytes
        given: dict[str, object] = {"s": stored, "t": wide, "lanes": lanes}
        given["form"] = elements.form(stored.dtype, wide.dtype)
        given["stored_bytes"] = lanes * stored.bytes
        made += pieces(f"{FOLDER}/device_stored.cu.j2", None, **given)
    made += pieces(f"{FOLDER}/device_uniform.cu.j2", None, computed=COMPUTED)
    return tuple(made)
