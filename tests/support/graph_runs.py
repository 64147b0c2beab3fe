"""Graphs run on a target, as entries of one unit: traced ones, after the passes of all compiles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from c_sweep import quick

from noeira.compiler import build
from noeira.ir.entry import Entry
from noeira.ir.graph import ComputeGraph
from noeira.ir.orders import flattened
from noeira.ir.plan import STATE, root_of
from noeira.ir.verify import verify
from noeira.job import dump_of
from noeira.runtime.c.toolchain import CToolchain
from noeira.runtime.store import aligned_zeros
from noeira.runtime.targets import TARGETS


@dataclass(frozen=True)
class Run:
    """A graph and what it is given, by name: inputs, and the members of states, which are zeros if
    they are left out.
    """

    graph: ComputeGraph
    given: Mapping[str, np.ndarray]


def outputs_of(runs: Sequence[Run], target: str, quickly: bool = False) -> list[list[np.ndarray]]:
    """The outputs of each graph. quickly: C is built with less optimization."""
    entries, found = list[Entry](), list[list[np.ndarray]]()
    for number, run in enumerate(runs):
        graph = replace(run.graph, name=f"graphs.run{number}")
        entries.append(Entry(dump_of(verify(graph)), 1, "batch"))
    toolchain = TARGETS[target].open()
    if quickly and isinstance(toolchain, CToolchain):
        toolchain = replace(toolchain, compiler=quick(toolchain.compiler))
    unit = build("graphs", entries, toolchain)
    for run, entry in zip(runs, entries, strict=True):
        point, arrays = unit.entries[entry.name], list[np.ndarray]()
        for one in point.graph.inputs:
            array = aligned_zeros(one.value.type)
            array[...] = run.given[one.value.name]
            arrays.append(array)
        point.bind_inputs(arrays)
        for state in point.graph.states:
            flat = aligned_zeros(state.value.type)
            for value, member in point.graph.members(state):
                if value.name in run.given:
                    elements = flattened(run.given[value.name], member.order)
                    flat[member.offset : member.end] = elements
            point.bind(root_of(STATE, state.value.name), flat)
        point.run()
        found.append([array.copy() for array in point.outputs()])
    return found
