"""The rules of the IR, checked after every pass.

Names are defined once and above their use; types are what each op's shape rule gives; states are updated once, with
their own type; members lie inside their layout; groups were asked for by a type; fused bodies stay in their group.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from noeira.errors import NoeiraError, VerifyError
from noeira.ir.fused import check_body
from noeira.ir.graph import ComputeGraph, Node, Value
from noeira.ir.types import DTYPE_BYTES, LAYOUT_ALIGNMENT

NAME = re.compile(r"[\w.~^]+")


def verify(graph: ComputeGraph, after: str = "") -> ComputeGraph:
    """The graph itself. Raises VerifyError with the rule, the pass it came after, the line and its neighbours."""
    defined: dict[str, Value] = {}
    try:
        check_layouts(graph)
        for value in graph.given():
            define(defined, value)
        check_groups(graph)
    except VerifyError as error:
        raise VerifyError(f"{error}{context(after)}\n  in @{graph.name}") from None
    for index, node in enumerate(graph.nodes):
        try:
            check_node(graph, node, defined)
        except NoeiraError as error:
            where = neighbours(graph, index)
            raise VerifyError(f"{error}{context(after)}\n{where}") from None
    try:
        check_results(graph, defined)
    except VerifyError as error:
        raise VerifyError(f"{error}{context(after)}\n  at the end of @{graph.name}") from None
    return graph


def context(after: str) -> str:
    """Which pass broke it."""
    return f" (after {after})" if after else ""


def neighbours(graph: ComputeGraph, index: int) -> str:
    """The lines around a node, the node itself marked."""
    from noeira.ir.text import node_head

    first = max(index - 3, 0)
    lines = []
    for at, node in enumerate(graph.nodes[first : index + 4], first):
        lines.append(f"  {'>' if at == index else ' '} {node_head(node)}")
    return "\n".join(lines)


def define(defined: dict[str, Value], value: Value) -> None:
    """Enter a name."""
    if not NAME.fullmatch(value.name):
        raise VerifyError(f"{value.name!r} is no name: letters, digits, _ . ~ ^ only")
    if value.name in defined:
        raise VerifyError(f"{value} is defined twice")
    if value.type.dtype not in DTYPE_BYTES:
        raise VerifyError(f"{value}: there is no dtype {value.type.dtype!r}")
    if any(axis < 1 for axis in value.type.shape):
        raise VerifyError(f"{value}: {value.type} has an empty axis")
    defined[value.name] = value


def check_layouts(graph: ComputeGraph) -> None:
    """Members are aligned, in order, apart from each other and inside."""
    names = [layout.name for layout in graph.layouts]
    if len(set(names)) != len(names):
        raise VerifyError("a layout is defined twice")
    for layout in graph.layouts:
        end = 0
        for member in layout.members:
            if member.offset % LAYOUT_ALIGNMENT or member.offset < end:
                raise VerifyError(f"@{layout.name}: {member.name} is not aligned, or overlaps another")
            end = member.end
        if end > layout.size:
            raise VerifyError(f"@{layout.name}: its members go past its end")
    for value in graph.values():
        name = value.type.layout
        if name is not None:
            if name not in names:
                raise VerifyError(f"{value}: there is no layout @{name}")
            if value.type.size != graph.layout(name).size:
                raise VerifyError(f"{value} has not the size of @{name}")
    for state in graph.states:
        check_members(graph, state.value, state.members)


def check_members(graph: ComputeGraph, value: Value, members: tuple[Value, ...]) -> None:
    """The members of a state are those of its layout."""
    if not members:
        return
    if value.type.layout is None:
        raise VerifyError(f"{value} has members but no layout")
    wanted = [(m.name, m.shape) for m in graph.layout(value.type.layout).members]
    if [(m.name, m.type.shape) for m in members] != wanted:
        raise VerifyError(f"the members of {value} are not those of @{value.type.layout}")


def check_groups(graph: ComputeGraph) -> None:
    """Each group is declared once."""
    paths = [group.path for group in graph.groups]
    if len(set(paths)) != len(paths):
        raise VerifyError("a group is declared twice")


def plain_nodes(node: Node) -> Iterator[Node]:
    """The nodes whose ops have shape rules."""
    yield from node.parts


def check_node(graph: ComputeGraph, node: Node, defined: dict[str, Value]) -> None:
    """One node: operands above, types by the shape rule, group declared."""
    for value in node.inputs:
        if defined.get(value.name) != value:
            known = defined.get(value.name)
            raise VerifyError(f"{value} is {known.type} above" if known else f"{value} is not defined above")
    if node.body:
        check_body(node)
    elif node.op.name == "fused":
        raise VerifyError("a fused node without a body")
    for part in plain_nodes(node):
        types = part.op.infer(part.attrs, *[v.type for v in part.inputs])
        if types != tuple(v.type for v in part.outputs):
            raise VerifyError(f"{part.op.name} gives {', '.join(map(str, types))}")
    for value in node.outputs:
        define(defined, value)
    if node.group:
        try:
            graph.group_of(node.group)
        except KeyError:
            raise VerifyError(f"no type asked for group {node.group!r}") from None


def check_results(graph: ComputeGraph, defined: dict[str, Value]) -> None:
    """Outputs and updates are defined; a state is updated once, with its own type."""
    for value in graph.results():
        if defined.get(value.name) != value:
            raise VerifyError(f"{value} is returned, or updates a state, but is not defined")
    states = {s.value.name: s.value for s in graph.states}
    updated = set[str]()
    for update in graph.updates:
        if states.get(update.state.name) != update.state:
            raise VerifyError(f"update of {update.state}, which is no state")
        if update.state.name in updated:
            raise VerifyError(f"{update.state} is updated twice")
        if update.new.type != update.state.type:
            raise VerifyError(f"{update.state} is {update.state.type}, its update {update.new.type}")
        updated.add(update.state.name)
