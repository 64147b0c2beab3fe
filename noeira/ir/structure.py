"""What nodes are but for the names of their values. Networks have the same blocks many times: what
is decided by this alone is asked once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from noeira.ir.graph import Node, Value

Answer = TypeVar("Answer")


def structure(nodes: Iterable[Node], results: Sequence[Value] = ()) -> tuple[object, ...]:
    """Ops, attributes and types of nodes, and who reads whom: values have numbers in the order in
    which they are met. results: what is read of it outside.
    """
    numbers = dict[str, int]()
    parts = tuple(
        (
            part.op,
            part.attrs,
            *((numbers.setdefault(v.name, len(numbers)), v.type) for v in part.inputs),
            *((numbers.setdefault(v.name, len(numbers)), v.type) for v in part.outputs),
        )
        for part in nodes
    )
    return (parts, *(numbers[value.name] for value in results))


def asked_once(nodes: Sequence[Node], ask: Callable[[Node], Answer]) -> list[Answer]:
    """The answer for each node, which is the same for all of one structure."""
    answers = dict[object, Answer]()
    found = list[Answer]()
    for node in nodes:
        form = structure(node.parts, node.outputs)
        if form not in answers:
            answers[form] = ask(node)
        found.append(answers[form])
    return found
