"""The rules of the IR, checked after every pass.

Names are defined once and above their use; types are what each op's shape rule gives; indices stay
below what is read by them; states are updated once, with their own type; members lie inside their
layout; groups and regions were asked for by a type; fused bodies stay in theirs. One more holds of
what is planned: operands lie in the order that kernels take them in.
"""

from __future__ import annotations

import re
from dataclasses import replace

from noeira.errors import NoeiraError, VerifyError
from noeira.ir.fused import check_body
from noeira.ir.graph import ComputeGraph, Input, Node, State, Value
from noeira.ir.layouts import LAYOUT_ALIGNMENT, Layout
from noeira.ir.op import IndexLimit
from noeira.ir.orders import ORDERS, check_orders
from noeira.ir.storage import Holding
from noeira.ir.text.printer import graph_text, node_head
from noeira.ir.types import DTYPE_BYTES, INDICES

NAME = re.compile(r"[\w.~^]+")


def verify(graph: ComputeGraph, after: str = "") -> ComputeGraph:
    """The graph itself. Raises VerifyError with the rule, the pass it came after, the line and its
    neighbours.
    """
    defined: dict[str, Value] = {}
    limits = {given.value.name: given.limit for given in graph.inputs}
    try:
        check_layouts(graph)
        for value in graph.given():
            define(defined, value)
        for value in (*(i.value for i in graph.inputs), *(s.value for s in graph.states)):
            check_row_major(value, "what callers give does")
        for given in graph.inputs:
            check_limit(given)
        for state in graph.states:
            check_state(graph, state)
        check_groups(graph)
        regions = check_regions(graph)
    except VerifyError as error:
        raise VerifyError(f"{error}{context(after)}\n  at the head of @{graph.name}") from None
    for index, node in enumerate(graph.nodes):
        try:
            check_node(graph, node, defined)
            if node.region not in regions:
                raise VerifyError(f"no type asked for region {node.region!r}")
            check_indices(graph, node, limits)
        except NoeiraError as error:
            raise VerifyError(f"{error}{context(after)}\n{neighbours(graph, index)}") from None
    try:
        check_results(graph, defined)
    except VerifyError as error:
        raise VerifyError(f"{error}{context(after)}\n  at the end of @{graph.name}") from None
    return graph


def verify_orders(graph: ComputeGraph) -> None:
    """What holds behind the pass `order`. Raises VerifyError if an operand does not lie as its
    kernel, or the view of it, takes it, or if a result of the graph is not row major.
    """
    for index, node in enumerate(graph.nodes):
        try:
            for part in node.parts:
                check_orders(part)
        except VerifyError as error:
            raise VerifyError(f"{error}\n{neighbours(graph, index)}") from None
    for value in graph.outputs:
        check_row_major(value, "what callers get does: the pass `order` puts a reorder there")


def check_row_major(value: Value, why: str) -> None:
    """Raises VerifyError for a value that lies in an order."""
    if value.type.order:
        raise VerifyError(f"{value} is {value.type}, and must lie row major, as {why}")


def context(after: str) -> str:
    """Which pass broke it."""
    return f" (after {after})" if after else ""


def neighbours(graph: ComputeGraph, index: int) -> str:
    """The number of a node's line in the `.nir`, and the lines around it, its own marked."""
    before = replace(graph, nodes=graph.nodes[:index], updates=(), outputs=())
    # A `.nir` begins with two lines more, and `before` ends with two: return and }.
    number = graph_text(before).count("\n") + 1
    first = max(index - 3, 0)
    lines = [
        f"  {'>' if at == index else ' '} {node_head(node)}"
        for at, node in enumerate(graph.nodes[first : index + 4], first)
    ]
    return "\n".join([f"  line {number} of @{graph.name}:", *lines])


def define(defined: dict[str, Value], value: Value) -> None:
    """Enter a name."""
    if not NAME.fullmatch(value.name):
        raise VerifyError(f"{value.name!r} is no name: letters, digits, _ . ~ ^ only")
    if value.name in defined:
        raise VerifyError(f"{value} is defined twice")
    if value.type.dtype not in DTYPE_BYTES:
        raise VerifyError(f"{value}: there is no dtype {value.type.dtype!r}")
    if fault := value.type.fault:
        raise VerifyError(f"{value}: {value.type} {fault}")
    defined[value.name] = value


def check_layouts(graph: ComputeGraph) -> None:
    """Members are aligned, in order, apart from each other and inside; flat values are as long as
    their layout.
    """
    layouts = {layout.name: layout for layout in graph.layouts}
    if len(layouts) != len(graph.layouts):
        raise VerifyError("a layout is defined twice")
    for layout in graph.layouts:
        check_layout(layout)
    for value in graph.values():
        name = value.type.layout
        if name is not None:
            if name not in layouts:
                raise VerifyError(f"{value}: there is no layout @{name}")
            if value.type.shape != (layouts[name].size,):
                raise VerifyError(f"{value} has not the size of @{name}")


def check_layout(layout: Layout) -> None:
    """One layout."""
    end = 0
    for member in layout.members:
        if member.offset % LAYOUT_ALIGNMENT:
            wanted = f"a multiple of {LAYOUT_ALIGNMENT}"
            raise VerifyError(
                f"@{layout.name}: {member.name} begins at {member.offset}, not at {wanted}"
            )
        if member.order and len(ORDERS[member.order]) != len(member.shape):
            raise VerifyError(f"@{layout.name}: {member} has not the axes of its order")
        if member.offset < end:
            raise VerifyError(
                f"@{layout.name}: {member.name} begins before the end of the member above"
            )
        end = member.end
    if end > layout.size:
        raise VerifyError(f"@{layout.name}: its members go past its end")


def check_limit(given: Input) -> None:
    """Only indices have a limit, and one that something is below."""
    if given.limit is None:
        return
    if given.value.type.dtype not in INDICES:
        raise VerifyError(
            f"{given.value} is {given.value.type}: only inputs of whole numbers have a limit"
        )
    if given.limit < 1:
        raise VerifyError(f"{given.value}: nothing is below the limit {given.limit}")


def check_state(graph: ComputeGraph, state: State) -> None:
    """The members of a state are those of its layout, and each of them begins somehow, or none
    does.
    """
    value, layout = state.value, state.value.type.layout
    if state.members:
        if layout is None:
            raise VerifyError(f"{value} has members but no layout")
        wanted = [
            Value(m.name, replace(value.type, shape=m.shape, layout=None, order=m.order))
            for m in graph.layout(layout).members
        ]
        if list(state.members) != wanted:
            raise VerifyError(f"the members of {value} are not those of @{layout}")
    if state.initial and len(state.initial) != max(len(state.members), 1):
        raise VerifyError(
            f"{value} has {len(state.initial)} initial values for {len(state.members)} members"
        )


def check_groups(graph: ComputeGraph) -> None:
    """Each group is declared once."""
    paths = [group.path for group in graph.groups]
    if len(set(paths)) != len(paths):
        raise VerifyError("a group is declared twice")


def check_regions(graph: ComputeGraph) -> set[str]:
    """Each region is declared once, below the one it lies in; gives what a node may be in."""
    known = {""}
    for region in graph.regions:
        if region.path in known:
            raise VerifyError(f"region {region.path!r} is declared twice")
        if region.outer not in known:
            raise VerifyError(
                f"region {region.path!r} lies in {region.outer!r}, which is not declared above"
            )
        known.add(region.path)
    return known


def check_node(graph: ComputeGraph, node: Node, defined: dict[str, Value]) -> None:
    """One node: operands above, types by the shape rule, group declared."""
    for value in node.inputs:
        known = defined.get(value.name)
        if known is not value and known != value:
            raise VerifyError(
                f"{value} is not defined above"
                if known is None
                else f"{value} is {known.type} above, and read as {value.type}"
            )
    if node.body:
        check_body(node)
    for part in node.parts:
        stated = tuple(v.type for v in part.outputs)
        if part.rule != stated:
            right, wrong = (", ".join(map(str, types)) for types in (part.rule, stated))
            raise VerifyError(f"{part.op.name} gives {right}, not {wrong}")
    if isinstance(node.storage, Holding):
        check_held(graph, node, node.storage)
    for value in node.outputs:
        define(defined, value)
    if node.group:
        try:
            graph.group_of(node.group)
        except KeyError:
            raise VerifyError(f"no type asked for group {node.group!r}") from None


def check_held(graph: ComputeGraph, node: Node, storage: Holding) -> None:
    """What lies in a value with a layout are members of that layout; others are zero."""
    name = node.outputs[0].type.layout
    if name is not None:
        sizes = (v.type.size for v in node.inputs)
        orders = node.op.kernel_orders(node.attrs, tuple(v.type for v in node.inputs))
        held = [*zip(storage.offsets, sizes, orders, strict=True)]
        members = {(one.offset, one.size, one.order): one for one in graph.layout(name).members}
        wrong = [one for one in held if one not in members]
        if wrong:
            got = ", ".join(
                f"{size} elements{f' {order}' if order else ''} @ {offset}"
                for offset, size, order in wrong
            )
            left = [member for key, member in members.items() if key not in held]
            there = ", ".join(map(str, left)) or "nothing more"
            raise VerifyError(f"{node.op.name} holds {got}; in @{name} lies {there}")


def check_indices(graph: ComputeGraph, node: Node, limits: dict[str, int | None]) -> None:
    """No index that a node is given reaches beyond what it reads; `limits`, what the elements of
    each whole-number value stay below, is entered for its results.
    """
    for part in node.parts:
        for operand, allowed in part.op.index_limits(part.attrs, part.types).items():
            value = part.inputs[part.operands.index(operand)]
            limit = limits.get(value.name)
            if limit is None or limit > allowed.limit:
                raise VerifyError(beyond(graph, part, value, limit, allowed))
        whole = [v.name for v in part.outputs if v.type.dtype in INDICES]
        if whole:
            given = part.arguments([limits.get(v.name) for v in part.inputs])
            found = part.op.result_limits(part.attrs, part.types, given)
            pairs = zip(part.outputs, found, strict=True)
            limits.update((v.name, limit) for v, limit in pairs if v.name in whole)


def beyond(
    graph: ComputeGraph, node: Node, value: Value, limit: int | None, allowed: IndexLimit
) -> str:
    """What is wrong with an index operand."""
    reads = f"but {node.op.name} reads {allowed.limit} {allowed.unit}"
    if limit is not None:
        return f"{value} may be up to {limit - 1}, {reads}"
    if any(given.value == value for given in graph.inputs):
        return f"{value} has no limit, {reads}: write {value}: {value.type} < {allowed.limit}"
    return f"nothing limits {value}, {reads}: it must come from an input with a limit"


def check_results(graph: ComputeGraph, defined: dict[str, Value]) -> None:
    """Outputs and updates are defined; a state is updated once, with its own type."""
    for value in graph.results():
        known = defined.get(value.name)
        if known is not value and known != value:
            verb = "not defined" if known is None else f"{known.type}, not {value.type}"
            raise VerifyError(f"{value}, returned or the update of a state, is {verb}")
    states = {s.value.name: s.value for s in graph.states}
    updated = set[str]()
    for update in graph.updates:
        if states.get(update.state.name) != update.state:
            raise VerifyError(f"{update.state} is updated, but is no state")
        if update.state.name in updated:
            raise VerifyError(f"{update.state} is updated twice")
        if update.new.type != update.state.type:
            raise VerifyError(
                f"{update.state} is {update.state.type}, its update {update.new.type}"
            )
        updated.add(update.state.name)
