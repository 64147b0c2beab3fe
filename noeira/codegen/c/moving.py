"""How C moves elements as they are, of any dtype."""

from __future__ import annotations

from typing import Any

from noeira.codegen.c.anchor import CAnchor, SplitCut, splits
from noeira.codegen.c.isa import ISA
from noeira.codegen.moved import AxisView, WindowView, axis_view, window_of
from noeira.ir.body import Body
from noeira.ir.types import FLOATS


class Moving(CAnchor):
    """Threads share the result: what is left out is no work."""

    dtypes = frozenset(FLOATS)

    def rule(self, body: Body, machine: ISA) -> Any:
        return SplitCut(splits(body.outputs[0].type.size))


class Windowed(Moving):
    """A window of a larger tensor."""

    def view(self, body: Body, machine: ISA) -> WindowView:
        return window_of(body)


class Along(CAnchor):
    """Elements along an axis."""

    def view(self, body: Body, machine: ISA) -> AxisView:
        return axis_view(body)


class MovedAlong(Along):
    """The same, moved as they are."""

    dtypes = frozenset(FLOATS)
