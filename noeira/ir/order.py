"""Orders of nodes: the one closest to a wish that respects who reads whom."""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterable, Sequence

from noeira.errors import VerifyError
from noeira.ir.graph import Node


def topological(nodes: Sequence[Node], after: Iterable[tuple[int, int]] = ()) -> list[Node]:
    """The nodes, each after what it reads; among the free ones the earlier in `nodes` first.

    after: further pairs (i, j), node i must come after node j. Raises VerifyError if there is no
    such order.
    """
    ordered, stuck = ordered_and_stuck(nodes, after)
    if stuck:
        raise VerifyError(f"{stuck[0].outputs[0]} waits for itself: no order of the nodes exists")
    return ordered


def ordered_and_stuck(
    nodes: Sequence[Node], after: Iterable[tuple[int, int]] = ()
) -> tuple[list[Node], list[Node]]:
    """As `topological`, and the nodes that wait for themselves, or for nodes that do."""
    readers, waiting = defaultdict[int, list[int]](list), [0] * len(nodes)
    for index, before in (*reads(nodes), *after):
        readers[before].append(index)
        waiting[index] += 1
    free = [index for index, count in enumerate(waiting) if count == 0]
    ordered = list[Node]()
    while free:
        index = heapq.heappop(free)
        ordered.append(nodes[index])
        for reader in readers[index]:
            waiting[reader] -= 1
            if waiting[reader] == 0:
                heapq.heappush(free, reader)
    return ordered, [node for index, node in enumerate(nodes) if waiting[index]]


def reads(nodes: Sequence[Node]) -> list[tuple[int, int]]:
    """Pairs (i, j): node i reads what node j makes."""
    maker = {v.name: index for index, node in enumerate(nodes) for v in node.outputs}
    return [(i, maker[v.name]) for i, n in enumerate(nodes) for v in n.inputs if v.name in maker]


def rings(nodes: Sequence[Node], after: Iterable[tuple[int, int]] = ()) -> list[set[int]]:
    """The nodes, as positions, that wait for each other, those of one ring together. after: as of
    `topological`.
    """
    import networkx

    waiting = networkx.DiGraph([*reads(nodes), *after])
    return [ring for ring in networkx.strongly_connected_components(waiting) if len(ring) > 1]
