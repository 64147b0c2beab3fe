"""What must hold of a plan that comes from a file, before its program may touch memory."""

from __future__ import annotations

from noeira.errors import VerifyError
from noeira.ir.plan import ARENA, INPUT, LITERAL, OUTPUT, STATE, Place, Plan


def check_plan(plan: Plan) -> Plan:
    """The plan itself. Raises VerifyError if a value has no place, or one that is not large enough."""
    types = {value.name: value.type for value in plan.graph.values()}
    rooms = room_sizes(plan)
    for place in plan.places:
        if place.name not in types:
            raise VerifyError(f"place %{place.name}: the graph has no such value")
        if place.kind != LITERAL:
            check_place(place, types[place.name].nbytes, rooms)
    for call in plan.calls:
        for value in (*call.node.inputs, *call.node.outputs):
            if value.name not in plan.place:
                raise VerifyError(f"call {call.node.outputs[0]}: {value} has no place")
        if any(plan.place[value.name].kind == LITERAL for value in call.node.outputs):
            raise VerifyError(f"call {call.node.outputs[0]}: it cannot write to a literal")
        end = call.workspace + call.choice.workspace
        if call.workspace < 0 or end > plan.arena:
            raise VerifyError(
                f"call {call.node.outputs[0]}: its workspace ends at {end}, the arena at {plan.arena}"
            )
    return plan


def room_sizes(plan: Plan) -> dict[str, int]:
    """The bytes of every root."""
    graph = plan.graph
    return {
        ARENA: plan.arena,
        **{f"{INPUT} {i.value.name}": i.value.type.nbytes for i in graph.inputs},
        **{f"{STATE} {s.value.name}": s.value.type.nbytes for s in graph.states},
        **{f"{OUTPUT} {v.name}": v.type.nbytes for v in graph.outputs},
    }


def check_place(place: Place, needed: int, rooms: dict[str, int]) -> None:
    """A place is as large as its value and lies in its root."""
    if place.root not in rooms:
        raise VerifyError(f"place %{place.name}: there is no {place.root}")
    if place.size != needed:
        raise VerifyError(f"place %{place.name}: its size is {place.size}, it needs {needed} bytes")
    end, room = place.offset + place.size, rooms[place.root]
    if place.offset < 0 or end > room:
        raise VerifyError(f"place %{place.name}: it ends at {end}, {place.root} at {room}")
