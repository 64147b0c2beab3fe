"""Entry points: a graph that can be called, and the arrays it works on. How a call is made is the
matter of the classes of each target.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from noeira.ir.graph import ComputeGraph
from noeira.ir.plan import INPUT, OUTPUT, STATE, Plan, root_of, split_root
from noeira.runtime.arguments import Exact
from noeira.runtime.store import aligned_zeros

if TYPE_CHECKING:
    from typing import Any

    import numpy as np

    from noeira.runtime.store import Store

# A native call lasts about this long at most, so that Ctrl-C and progress need no threads.
CALL_SECONDS = 0.05


class EntryPoint:
    """A graph and the arrays it works on, by root: `input x`, `state params`, `output loss`."""

    def __init__(self, graph: ComputeGraph) -> None:
        self.graph = graph
        self.arrays: dict[str, np.ndarray] = {}
        self.inputs = {i.value.name: i for i in graph.inputs}
        self.input_roots = tuple(root_of(INPUT, name) for name in self.inputs)
        self.exact = tuple(Exact(i) for i in graph.inputs)
        self.own_outputs = {root_of(OUTPUT, v.name): aligned_zeros(v.type) for v in graph.outputs}
        self.output_bytes = sum(array.nbytes for array in self.own_outputs.values())
        self.bind_own_outputs()

    def runs(self) -> Plan | ComputeGraph:
        """What it runs: the plan, or the graph itself where it has none."""
        return self.graph

    def bind(self, root: str, array: np.ndarray) -> None:
        """Let the array be the memory of a root."""
        self.arrays[root] = array

    def bind_state(
        self, name: str, array: np.ndarray, store: Store | None = None, stored: str = ""
    ) -> None:
        """Let the array be a state, which is the store's if there is one; stored: what that calls
        it, if that is another name.
        """
        self.bind(root_of(STATE, name), array)

    def take_over(self, root: str, other: EntryPoint, other_root: str) -> None:
        """Let a root be the same memory as a root of another entry, whatever that holds now or
        later.
        """
        self.bind(root, other.arrays[other_root])

    def given(self) -> dict[str, np.ndarray]:
        """Inputs and states by name, with their newest elements, to be read."""
        return {
            split_root(root)[1]: array
            for root, array in self.arrays.items()
            if split_root(root)[0] != OUTPUT
        }

    def takes(self, given: Sequence[Any]) -> bool:
        """Whether these are its inputs, in order, in no need of a message or a conversion."""
        return len(given) == len(self.exact) and all(map(Exact.is_met_by, self.exact, given))

    def bind_inputs(self, arrays: Sequence[np.ndarray]) -> None:
        """Let the arrays, which have been checked, be its inputs in order."""
        for index, array in enumerate(arrays):
            self.bind(self.input_roots[index], array)

    def bind_own_outputs(self) -> None:
        """Let the outputs be in its own memory, as they are at first."""
        for root, array in self.own_outputs.items():
            self.bind(root, array)

    def output(self, name: str) -> np.ndarray:
        """The memory of an output, as the last call left it."""
        return self.arrays[root_of(OUTPUT, name)]

    def outputs(self) -> Iterator[np.ndarray]:
        """The memory of every output, in order."""
        return map(self.arrays.__getitem__, self.own_outputs)

    def run(self, steps: int = 1) -> int:
        """Up to `steps` calls in turn, for about CALL_SECONDS at most; gives how many. A call that
        was not ok is the last.
        """
        raise NotImplementedError
