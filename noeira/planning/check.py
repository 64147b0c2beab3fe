"""Plans from their text: what must hold of them before their programs may touch memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from noeira.errors import VerifyError
from noeira.ir.graph import Node
from noeira.ir.plan import (
    ARENA,
    INPUT,
    LITERAL,
    OUTPUT,
    STATE,
    Choice,
    Plan,
    call_text,
    place_text,
    root_of,
)
from noeira.ir.text.plan import parse_plan, parse_plans
from noeira.ir.types import ALIGNMENT
from noeira.ir.verify import verify
from noeira.planning.first_fit import Span, collision
from noeira.planning.memory import Planner, workspace_span


class Target(Protocol):
    """What knows the kernels of a plan."""

    def cuts(self, node: Node, choice: Choice, /) -> object:
        """Raises VerifyError for stages that are none of the node's kernel, or a workspace that is
        too small for them.
        """

    def check_places(self, plan: Plan, /) -> None:
        """Raises VerifyError for a place that kernels cannot read or write."""


# Targets by their names in plans; raises DeviceError for one that there is not.
Named = Callable[[str], Target]


def checked_plan(text: str, named: Named) -> Plan:
    """The plan that a text says, which can be built and run. Raises ParseError, VerifyError or
    DeviceError.
    """
    return check_plan(parse_plan(text), named)


def checked_plans(text: str, named: Named) -> list[Plan]:
    """The plans of a unit, from their text one after the other; raises what `checked_plan` does."""
    return [check_plan(plan, named) for plan in parse_plans(text)]


def check_plan(plan: Plan, named: Named) -> Plan:
    """The plan itself.

    Raises DeviceError if there is no such target; VerifyError if its graph breaks a rule, a value
    would lie outside what it is placed in, or where something else lies that is needed, a call
    would write to a literal, its stages are none of its kernel, their workspace is too small, or
    kernels of the target cannot read where a value begins. (The parser has checked that places are
    as large as their values, and that workspaces are inside the arena.)
    """
    verify(plan.graph)
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
    target = named(plan.target)
    for call in plan.calls:
        target.cuts(call.node, call.choice)
    check_places(plan)
    target.check_places(plan)
    return plan


def check_places(plan: Plan) -> None:
    """Raises VerifyError unless each value lies where its graph lets it, for as long as its graph
    needs it, and alone: only where in the arena a value lies, and a workspace, is free.
    """
    planner = Planner.of(plan.graph)
    lives = planner.lifetimes()
    owners = [span for span in lives.values() if span.root == ARENA]
    offsets = {name: place.offset for name, place in plan.place.items()}
    for span in owners:
        if span.name not in offsets:
            raise VerifyError(f"%{span.name} has no place, and values lie in it")
    expected = {place.name: place for place in planner.places(lives, offsets)}
    for place in plan.places:
        wanted = expected.get(place.name)
        if wanted is not None and place != wanted:
            raise VerifyError(f"{place_text(place)}: by its graph it is {place_text(wanted)}")
    placed = [(span, offsets[span.name]) for span in owners]
    for number, call in enumerate(plan.calls):
        if call.choice.workspace:
            placed.append((workspace_span(number, call.choice), call.workspace))
    shown = {span.name: shown_span(plan, span) for span, _ in placed}
    for span, offset in placed:
        if offset % ALIGNMENT:
            raise VerifyError(
                f"{shown[span.name]}: what lies in the arena begins at a multiple of {ALIGNMENT}"
            )
    if clash := collision(placed):
        first, second = clash
        at = max(first.first, second.first)
        when = f"call {plan.calls[at].node.outputs[0]}" if at < len(plan.calls) else "the end"
        raise VerifyError(
            f"{shown[first.name]}\nand {shown[second.name]}\n"
            f"have bytes in common, and both are needed at {when}, number {at}"
        )


def shown_span(plan: Plan, span: Span) -> str:
    """The line of a plan that says where a value or a workspace lies."""
    place = plan.place.get(span.name)
    return place_text(place) if place else call_text(plan.calls[span.first])


def room_sizes(plan: Plan) -> dict[str, int]:
    """The bytes of everything that values are placed in."""
    graph = plan.graph
    return {
        ARENA: plan.arena,
        **{root_of(INPUT, i.value.name): i.value.type.nbytes for i in graph.inputs},
        **{root_of(STATE, s.value.name): s.value.type.nbytes for s in graph.states},
        **{root_of(OUTPUT, v.name): v.type.nbytes for v in graph.outputs},
    }
