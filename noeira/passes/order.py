"""order: images lie channels last from one convolution, pool or statistic to the next.

    %0.convolution = convolution(%x, %0.weight) {padding = [1, 1]}   : f32[8, 16, 32, 32]

becomes

    %x.nhwc = reorder(%x) {order = "nhwc"}                           : f32[8, 3, 32, 32] nhwc
    %0.convolution = convolution(%x.nhwc, %0.weight) {…}             : f32[8, 16, 32, 32] nhwc

Shapes, attributes and bits stay: an order says how the axes of a value lie in memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from noeira.ir.graph import ComputeGraph
from noeira.ir.ordering import in_orders, row_major
from noeira.passes.base import Pass


@dataclass(frozen=True)
class Order(Pass):
    """Put a `reorder` wherever a kernel wants an operand in another order.

    channels_last: whether images stay channels last from one op about images to the next; else
    everything between them is row major, and each has its reorders before and behind it.
    """

    name: ClassVar[str] = "order"
    channels_last: bool = True

    def __call__(self, graph: ComputeGraph) -> ComputeGraph:
        return in_orders(graph, self.name, self.channels_last)

    def undo(self, graph: ComputeGraph) -> ComputeGraph:
        return row_major(graph, self.name)
