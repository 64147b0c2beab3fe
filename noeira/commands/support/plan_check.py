"""What must hold of a plan that comes from a file, before its program may touch memory."""

from __future__ import annotations

from noeira.codegen.targets import target_named
from noeira.errors import VerifyError
from noeira.ir.plan import ARENA, INPUT, LITERAL, OUTPUT, STATE, Plan


def check_plan(plan: Plan) -> Plan:
    """The plan itself.

    Raises VerifyError if a value would lie outside what it is placed in, a call would write to a
    literal, its stages are none of its kernel, or their workspace is too small. (The parser has
    checked that places are as large as their values, and that workspaces are inside the arena.)
    """
    rooms = room_sizes(plan)
    for place in plan.places:
        end = place.offset + place.size
        if place.kind != LITERAL and not 0 <= place.offset <= end <= rooms[place.root]:
            room = f"{place.root} at {rooms[place.root]}"
            raise VerifyError(f"place %{place.name}: it ends at {end}, {room}")
    for call in plan.calls:
        for value in call.node.outputs:
            if plan.place[value.name].kind == LITERAL:
                raise VerifyError(f"call {call.node.outputs[0]}: it cannot write to a literal")
    target = target_named(plan.target)
    for call in plan.calls:
        target.cuts(call.node, call.choice)
    return plan


def room_sizes(plan: Plan) -> dict[str, int]:
    """The bytes of everything that values are placed in."""
    graph = plan.graph
    return {
        ARENA: plan.arena,
        **{f"{INPUT} {i.value.name}": i.value.type.nbytes for i in graph.inputs},
        **{f"{STATE} {s.value.name}": s.value.type.nbytes for s in graph.states},
        **{f"{OUTPUT} {v.name}": v.type.nbytes for v in graph.outputs},
    }
