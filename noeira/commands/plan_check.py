"""What must hold of a plan that comes from a file, before its program may touch memory."""

from __future__ import annotations

from noeira.codegen.cuda import CudaTarget
from noeira.codegen.launches import within
from noeira.codegen.targets import target_named
from noeira.errors import VerifyError
from noeira.ir.plan import ARENA, INPUT, LITERAL, OUTPUT, STATE, Call, Choice, Plan


def check_plan(plan: Plan) -> Plan:
    """The plan itself.

    Raises VerifyError if a value would lie outside what it is placed in, a call would write to a
    literal, or a GPU cannot launch a stage. (The parser has checked that places are as large as
    their values.)
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
    if isinstance(target, CudaTarget):
        for call in plan.calls:
            # The launches of a product follow from its tiles: rendering says what they must be.
            if call.choice.stages[0].name != "gemm":
                within(call.choice, target.arch)
                check_shared(call, target.choose(call.node))
    return plan


def check_shared(call: Call, rule: Choice) -> None:
    """Raises VerifyError if a stage has less shared memory for a thread than the rule gives it."""
    by_rule = {stage.name: dict(stage.options) for stage in rule.stages}
    for stage in call.choice.stages:
        options, usual = dict(stage.options), by_rule.get(stage.name, {})
        if "shared" in usual:
            least = -(-usual["shared"] * max(options["block"], usual["block"]) // usual["block"])
            if options.get("shared", 0) < least:
                block = options["block"]
                raise VerifyError(
                    f"{stage}: shared must be at least {least:,} bytes for {block} threads"
                )


def room_sizes(plan: Plan) -> dict[str, int]:
    """The bytes of everything that values are placed in."""
    graph = plan.graph
    return {
        ARENA: plan.arena,
        **{f"{INPUT} {i.value.name}": i.value.type.nbytes for i in graph.inputs},
        **{f"{STATE} {s.value.name}": s.value.type.nbytes for s in graph.states},
        **{f"{OUTPUT} {v.name}": v.type.nbytes for v in graph.outputs},
    }
