"""The interface of a built unit: the exported function of a plan, and the order of its table of
pointers.
"""

from __future__ import annotations

import re

from noeira.ir.plan import INPUT, OUTPUT, STATE, Plan


def entry_symbol(name: str) -> str:
    """The exported C name of a plan: never a short one, which could collide with libc."""
    return "noeira_" + re.sub(r"\W", "_", name)


def io_names(plan: Plan) -> tuple[str, ...]:
    """What the table of pointers holds, in order: inputs, states, outputs."""
    graph = plan.graph
    return (
        *(f"{INPUT} {i.value.name}" for i in graph.inputs),
        *(f"{STATE} {s.value.name}" for s in graph.states),
        *(f"{OUTPUT} {v.name}" for v in graph.outputs),
    )
