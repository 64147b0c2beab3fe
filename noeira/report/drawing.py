"""Graphs as pictures: DOT for Graphviz, and Mermaid for Markdown."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from noeira.ir.graph import ADJOINT, RECOMPUTED, ComputeGraph, Node, Value

# Fills of the groups in turn: light enough for black text.
PALETTE = ("#cfe2f3", "#d9ead3", "#fff2cc", "#f4cccc", "#d9d2e9", "#fce5cd", "#d0e0e3", "#ead1dc")


@dataclass(frozen=True)
class Box:
    """Something that gives or takes values; kind: `input`, `state`, `op`, `view` or `output`."""

    id: str
    label: str
    kind: str
    group: str = ""


@dataclass(frozen=True)
class Cluster:
    """A fused node: its operations are drawn inside a frame."""

    id: str
    label: str
    group: str
    boxes: tuple[Box, ...]


@dataclass(frozen=True)
class Edge:
    """A value on its way from what gives it to what reads it."""

    source: str
    target: str
    label: str


@dataclass(frozen=True)
class Picture:
    """A graph as boxes and edges; what nothing reads is left out."""

    name: str
    boxes: tuple[Box, ...]
    clusters: tuple[Cluster, ...]
    edges: tuple[Edge, ...]
    colours: dict[str, str]


def picture(graph: ComputeGraph) -> Picture:
    """The boxes and edges of a graph, the operations of a fused node in a frame."""
    operations, clusters, source = list[Box](), list[Cluster](), dict[str, str]()
    numbers = iter(range(1 << 30))
    readers: list[tuple[str, Value]] = []

    def box(part: Node, group: str) -> Box:
        made = Box(f"n{next(numbers)}", operation_label(part), kind_of(part), group)
        readers.extend((made.id, value) for value in part.inputs)
        source.update({value.name: made.id for value in part.outputs})
        return made

    for node in graph.nodes:
        boxes = tuple(box(part, node.group) for part in node.parts)
        if node.body:
            label = f"{node.origin.type} at {node.origin.path}"
            clusters.append(Cluster(f"c{len(clusters)}", label, node.group, boxes))
        else:
            operations += boxes
    results = list(result_boxes(graph))
    readers += [(made.id, value) for made, value in results]
    read = {value.name for _, value in readers}
    given = [made for made in given_boxes(graph) if made[1].name in read]
    source.update({value.name: made.id for made, value in given})
    edges = tuple(Edge(source[v.name], target, str(v.type)) for target, v in readers)
    own = (made for made, _ in (*given, *results))
    return Picture(graph.name, (*own, *operations), tuple(clusters), edges, colours(graph))


def kind_of(node: Node) -> str:
    """Whether an operation launches."""
    return "op" if node.launches else "view"


def operation_label(node: Node) -> str:
    """The operation and what it gives."""
    return f"{node.op.name}\n{', '.join(map(str, node.outputs))}"


def given_boxes(graph: ComputeGraph) -> Iterator[tuple[Box, Value]]:
    """Inputs, states and their members."""
    inputs = {given.value.name for given in graph.inputs}
    for number, value in enumerate(graph.given()):
        kind = "input" if value.name in inputs else "state"
        yield Box(f"g{number}", str(value), kind), value


def result_boxes(graph: ComputeGraph) -> Iterator[tuple[Box, Value]]:
    """Outputs, and the states that are updated."""
    for number, value in enumerate(graph.outputs):
        yield Box(f"r{number}", f"return {value}", "output"), value
    for number, update in enumerate(graph.updates):
        yield Box(f"u{number}", f"update {update.state}", "state"), update.new


def colours(graph: ComputeGraph) -> dict[str, str]:
    """The fill of every stamp: that of its group, so that a group and its gradient look alike."""
    fills = {group.path: PALETTE[i % len(PALETTE)] for i, group in enumerate(graph.groups)}
    stamps = dict.fromkeys(node.group for node in graph.nodes if node.group)
    return {stamp: fills[stamp.rstrip(ADJOINT + RECOMPUTED)] for stamp in stamps}


SHAPES = {
    "input": "shape=ellipse",
    "state": "shape=cylinder",
    "op": "shape=box",
    "view": "shape=box, style=dashed",
    "output": "shape=ellipse",
}


def dot(graph: ComputeGraph) -> str:
    """The graph as DOT text: `dot -Tsvg`."""
    shown = picture(graph)

    def line(box: Box) -> str:
        fill = shown.colours.get(box.group)
        style = f', style=filled, fillcolor="{fill}"' if fill and box.kind == "op" else ""
        return f"{box.id} [label={dot_text(box.label)}, {SHAPES[box.kind]}{style}];"

    lines = [f"digraph {dot_text(shown.name)} {{", "  node [fontsize=11];", "  edge [fontsize=9];"]
    lines += [f"  {line(box)}" for box in shown.boxes]
    for cluster in shown.clusters:
        lines += [f"  subgraph cluster_{cluster.id} {{", f"    label={dot_text(cluster.label)};"]
        lines += [f"    {line(box)}" for box in cluster.boxes]
        lines.append("  }")
    lines += [f"  {e.source} -> {e.target} [label={dot_text(e.label)}];" for e in shown.edges]
    return "\n".join([*lines, "}", ""])


def dot_text(text: str) -> str:
    """A quoted text of DOT."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


BRACKETS: dict[str, Callable[[str], str]] = {
    "input": "([{}])".format,
    "state": "[({})]".format,
    "op": "[{}]".format,
    "view": "[{}]".format,
    "output": "([{}])".format,
}


def mermaid(graph: ComputeGraph) -> str:
    """The graph as Mermaid text, which Markdown viewers draw."""
    shown = picture(graph)

    def line(box: Box) -> str:
        return f"{box.id}{BRACKETS[box.kind](mermaid_text(box.label))}"

    lines = ["flowchart TD"]
    lines += [f"  {line(box)}" for box in shown.boxes]
    for cluster in shown.clusters:
        lines.append(f"  subgraph {cluster.id}[{mermaid_text(cluster.label)}]")
        lines += [f"    {line(box)}" for box in cluster.boxes]
        lines.append("  end")
    lines += [f"  {e.source} -->|{mermaid_text(e.label)}| {e.target}" for e in shown.edges]
    every = (*shown.boxes, *(box for cluster in shown.clusters for box in cluster.boxes))
    for box in every:
        fill = shown.colours.get(box.group)
        if fill and box.kind == "op":
            lines.append(f"  style {box.id} fill:{fill}")
        elif box.kind == "view":
            lines.append(f"  style {box.id} stroke-dasharray: 4")
    return "\n".join([*lines, ""])


def mermaid_text(text: str) -> str:
    """A quoted text of Mermaid."""
    escaped = text.replace("#", "#35;").replace('"', "#quot;").replace("\n", "<br>")
    return f'"{escaped}"'
