"""The memory that a network type asks for, as states of a graph: what `trace` declares and updates,
and what an instance begins with.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from noeira.ir.builder import Builder
from noeira.ir.graph import ROOT, Origin, State, Value
from noeira.ir.layouts import Layout, lay_out
from noeira.ir.states import BUFFERS, PARAMS
from noeira.ir.types import TensorType

if TYPE_CHECKING:
    from noeira.nn.core.init import Initializer
    from noeira.nn.core.module import Module


@dataclass(frozen=True)
class NetworkStates:
    """Flat states and their layouts: %params, the parameters, and %buffers, those of the
    network's dtype. Buffers that have a dtype of their own stand alone.
    """

    layouts: tuple[Layout, ...]
    states: tuple[State, ...]

    def values(self) -> dict[str, Value]:
        """The parameters and buffers by their dotted paths."""
        parts = (part for s in self.states for part in (s.members or (s.value,)))
        return {value.name: value for value in parts}

    def layout(self, state: str) -> Layout:
        """The layout of a flat state; an empty one if the network has no such state."""
        name = "net" if state == PARAMS else state
        return next((found for found in self.layouts if found.name == name), Layout(name, 0, ()))


def network_states(net: type[Module], rule: Initializer, dtype: str) -> NetworkStates:
    """The states of a network type, with how they begin. Raises DtypeError for numbers to begin
    with that do not fit in their dtype.
    """
    infos, buffers = net.parameters(), net.buffers()
    layouts, found = list[Layout](), list[State]()

    def flat(name: str, layout: Layout, initial: list[str]) -> None:
        members = tuple(
            Value(m.name, TensorType(dtype, m.shape, order=m.order)) for m in layout.members
        )
        value = Value(name, TensorType(dtype, (layout.size,), layout.name))
        layouts.append(layout)
        found.append(State(value, members, tuple(initial)))

    if infos:
        layout = net.layout()
        begin = {m.name: infos[m.name].distribution(rule) for m in layout.members}
        for path, distribution in begin.items():
            distribution.check_fits(path, dtype)
        flat(PARAMS, layout, [*map(str, begin.values())])
    for path, info in buffers.items():
        info.init.check_fits(path, info.dtype or dtype)
    shapes = {path: info.shape for path, info in buffers.items() if info.dtype is None}
    if shapes:
        flat(BUFFERS, lay_out(BUFFERS, shapes), [str(buffers[path].init) for path in shapes])
    for path, info in buffers.items():
        if info.dtype is not None:
            value = Value(path, TensorType(info.dtype, info.shape))
            found.append(State(value, initial=(str(info.init),)))
    return NetworkStates(tuple(layouts), tuple(found))


def update_states(builder: Builder, own: NetworkStates, updated: Mapping[str, Value]) -> None:
    """Update the buffers that modules gave new values, a flat one as a whole."""
    values = own.values()
    for state in own.states:
        names = [part.name for part in (state.members or (state.value,))]
        if not any(name in updated for name in names):
            continue
        new = [updated.get(name, values[name]) for name in names]
        if state.members:
            with builder.at(Origin(ROOT, "buffers side by side", "trace")):
                new = [packed(builder, own.layout(state.value.name), new, state.value.name)]
        builder.update(state.value, new[0])


def packed(builder: Builder, layout: Layout, parts: Sequence[Value], state: str) -> Value:
    """The new value of a flat state."""
    offsets = tuple(member.offset for member in layout.members)
    return builder.emit(
        "pack",
        *parts,
        layout=layout.name,
        size=layout.size,
        offsets=offsets,
        hint=f"{state}.next",
    )
