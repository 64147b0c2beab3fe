"""Layers for tests of trace."""

from __future__ import annotations

from noeira.ir.graph import ComputeGraph
from noeira.ir.text.printer import graph_text


def lines(graph: ComputeGraph) -> list[str]:
    """The lines inside a graph."""
    return [line.strip() for line in graph_text(graph).partition("graph @")[2].splitlines()[1:-1]]
