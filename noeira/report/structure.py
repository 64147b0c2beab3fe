"""Graphs and plans as plain JSON values, in the order of the text form."""

from __future__ import annotations

import math
from typing import Any

from noeira.ir.graph import ComputeGraph, Node, Origin, State, Value, attr_items
from noeira.ir.layouts import Range
from noeira.ir.plan import Call, Plan
from noeira.ir.text.dump import Dump
from noeira.ir.text.lexer import literal
from noeira.ir.types import TensorType


def dump_value(dump: Dump) -> dict[str, Any]:
    """A graph, with the passes that were run and those still to run."""
    return {"done": list(dump.done), "todo": list(dump.todo), "graph": graph_value(dump.graph)}


def plan_value(plan: Plan) -> dict[str, Any]:
    """A plan; places and workspaces are in bytes."""
    return {
        "target": plan.target,
        "arena": plan.arena,
        "graph": graph_value(plan.graph),
        "places": [vars(place) for place in plan.places],
        "calls": [call_value(call) for call in plan.calls],
    }


def graph_value(graph: ComputeGraph) -> dict[str, Any]:
    """A graph."""
    return {
        "name": graph.name,
        "layouts": [
            {"name": g.name, "size": g.size, "members": [vars(m) for m in g.members]}
            for g in graph.layouts
        ],
        "inputs": [{**named(i.value), "limit": i.limit} for i in graph.inputs],
        "states": [state_value(s) for s in graph.states],
        "groups": [vars(g) for g in graph.groups],
        "regions": [vars(r) for r in graph.regions],
        "nodes": [node_value(n) for n in graph.nodes],
        "updates": [{"state": u.state.name, "new": u.new.name} for u in graph.updates],
        "outputs": [v.name for v in graph.outputs],
    }


def state_value(state: State) -> dict[str, Any]:
    """A state, its members and how its elements begin."""
    members = [named(m) for m in state.members]
    return {**named(state.value), "members": members, "initial": list(state.initial)}


def node_value(node: Node) -> dict[str, Any]:
    """A node; `body` holds the plain nodes of a fused one."""
    return {
        "op": node.op.name,
        "inputs": [v.name for v in node.inputs],
        "outputs": [named(v) for v in node.outputs],
        "attrs": {key: plain(value) for key, value in attr_items(node.attrs)},
        "origin": origin_value(node.origin),
        "group": node.group,
        "region": node.region,
        "launches": node.launches,
        "body": [node_value(part) for part in node.body],
    }


def call_value(call: Call) -> dict[str, Any]:
    """A call, named by its first result."""
    return {
        "call": call.node.outputs[0].name,
        "stages": [
            {"name": s.name, "options": {key: plain(value) for key, value in s.options}}
            for s in call.choice.stages
        ],
        "workspace": {"offset": call.workspace, "size": call.choice.workspace},
    }


def origin_value(origin: Origin) -> dict[str, str]:
    """Where a node comes from."""
    return {"path": origin.path, "type": origin.type, "pass": origin.by}


def named(value: Value) -> dict[str, Any]:
    """A value: its name and type."""
    return {"name": value.name, "type": type_value(value.type)}


def type_value(type: TensorType) -> dict[str, Any]:
    """A type; `layout` only where it has one."""
    found: dict[str, Any] = {"dtype": type.dtype, "shape": list(type.shape)}
    return found if type.layout is None else {**found, "layout": type.layout}


def plain(value: Any) -> Any:
    """An attribute: ranges, and floats that JSON lacks, as text."""
    if isinstance(value, tuple):
        return [plain(item) for item in value]
    if isinstance(value, Range) or (isinstance(value, float) and not math.isfinite(value)):
        return literal(value)
    return value
