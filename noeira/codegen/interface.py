"""The interface of a built unit: the exported function of a plan, and the order of its table of
pointers.
"""

from __future__ import annotations

import re

from noeira.ir.plan import INPUT, OUTPUT, STATE, Plan, root_of

# What the name of an entry ends in that takes down the time of every launch.
TIMED = "timed"


def entry_symbol(name: str) -> str:
    """The exported C name of a plan: never a short one, which could collide with libc."""
    return "noeira_" + re.sub(r"\W", "_", name)


def io_names(plan: Plan) -> tuple[str, ...]:
    """What the table of pointers holds, in order: inputs, states, outputs."""
    graph = plan.graph
    return (
        *(root_of(INPUT, i.value.name) for i in graph.inputs),
        *(root_of(STATE, s.value.name) for s in graph.states),
        *(root_of(OUTPUT, v.name) for v in graph.outputs),
    )


def stamps_per_step(plan: Plan) -> int:
    """How many times a timed entry takes down in a step, for each share: when it began, and for
    each stage how long the share took and when all were done.
    """
    return 1 + 2 * sum(len(call.choice.stages) for call in plan.calls)
