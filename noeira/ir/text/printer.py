"""The printer: a graph, its states and its nodes as lines of text."""

from __future__ import annotations

from noeira.ir.graph import TRACE, ComputeGraph, Node, Region, State, attr_items
from noeira.ir.text.lexer import literal


def node_head(node: Node) -> str:
    """`%y = relu(%x) : f32[3]`: a node without its group, region and origin."""
    names = ", ".join(part.op.name for part in node.body)
    name = f"fused[{names}]" if node.body else node.op.name
    attrs = ", ".join(f"{key} = {literal(value)}" for key, value in attr_items(node.attrs))
    return (
        f"{', '.join(map(str, node.outputs))} = {name}({', '.join(map(str, node.inputs))})"
        + (f" {{{attrs}}}" if attrs else "")
        + f" : {', '.join(str(v.type) for v in node.outputs)}"
    )


def node_lines(node: Node, indent: str = "  ") -> list[str]:
    """A node, and under a fused one the plain nodes it is made of."""
    inner = indent.endswith("| ")
    group = f"   in {node.group}" if node.group and not inner else ""
    region = f"   region {node.region}" if node.region and not inner else ""
    lines = [f"{indent}{node_head(node)}{group}{region}   {node.origin}"]
    for part in node.body:
        lines += node_lines(part, indent + "    | ")
    return lines


def state_lines(state: State) -> list[str]:
    """A state, and how its elements begin."""
    head = f"  state {state.value}: {state.value.type}"
    by = "" if state.by == TRACE else f"   by {state.by}"
    if state.members:
        named = zip(state.members, state.initial, strict=True) if state.initial else ()
        return [f"{head} members{by}", *(f"  initial {m} = {text}" for m, text in named)]
    return [(f"{head} = {state.initial[0]}" if state.initial else head) + by]


def region_line(region: Region) -> str:
    """A region, and the one it lies in."""
    outer = f" in {region.outer}" if region.outer else ""
    return f"  region {region.path}{outer}: {region.type}"


def graph_text(graph: ComputeGraph) -> str:
    """Layouts and graph."""
    lines = [str(layout) for layout in graph.layouts]
    lines.append(f"graph @{graph.name} {{")
    for given in graph.inputs:
        limit = "" if given.limit is None else f" < {given.limit}"
        lines.append(f"  input {given.value}: {given.value.type}{limit}")
    for state in graph.states:
        lines += state_lines(state)
    lines += [f"  group {group.path}: {group.type}" for group in graph.groups]
    lines += [region_line(region) for region in graph.regions]
    for node in graph.nodes:
        lines += node_lines(node)
    lines += [f"  update {u.state} = {u.new}" for u in graph.updates]
    lines.append(f"  return {', '.join(map(str, graph.outputs))}".rstrip())
    return "\n".join([*lines, "}", ""])
