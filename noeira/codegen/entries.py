"""What the template of an entry sees: its launches, each a function and where its arguments lie.

An entry is a table, and one loop over it: a compiler takes no longer over a thousand launches than
over ten.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from noeira.codegen.elements import ctype, literal
from noeira.codegen.interface import TIMED, entry_symbol, io_names, stamps_per_step
from noeira.codegen.view import function_names
from noeira.ir.cost import node_cost
from noeira.ir.graph import Value
from noeira.ir.plan import ARENA, LITERAL, STATE, Call, Plan, root_of
from noeira.ir.states import BAD
from noeira.ir.types import DTYPES

if TYPE_CHECKING:
    from noeira.codegen.sharing import Shared

# An entry that one thread takes longer for than this, at such a pace a second, is a long one.
LONG_SECONDS, SLOW_FLOPS, SLOW_BYTES = 200e-6, 50e9, 20e9


@dataclass(frozen=True)
class Place:
    """Where an argument lies: what that is counted from, by its name in C, and bytes."""

    root: str
    offset: int

    def __str__(self) -> str:
        return f"{{{self.root}, {self.offset}}}"


# Of an argument that there is none for.
NOTHING = Place("NOTHING", 0)


@dataclass(frozen=True)
class Launcher:
    """The function that calls a kernel's function with arguments of these C types."""

    name: str
    function: str
    arguments: tuple[str, ...]


@dataclass(frozen=True)
class Launch:
    """One launch of an entry: what it makes, its launcher, where its arguments lie, and whether
    threads share its work.
    """

    comment: str
    launcher: str
    places: tuple[Place, ...]
    shared: bool


@dataclass(frozen=True)
class Root:
    """Memory that the caller passes in: its name in C, and its place in the table."""

    c_name: str
    index: int


@dataclass(frozen=True)
class Literal:
    """A number in the unit's own memory."""

    c_name: str
    ctype: str
    text: str


@dataclass(frozen=True)
class EntryView:
    """The exported function of a plan; `stamps`: how many times a step of it takes down."""

    symbol: str
    plan: Plan
    roots: tuple[Root, ...]
    launches: tuple[Launch, ...]
    bad: int | None
    stamps: int = 0

    @property
    def table(self) -> str:
        """The C name of its table of launches, which it shares with the one that takes times."""
        return f"{entry_symbol(self.plan.name)}_launches"

    @property
    def shared(self) -> bool:
        """Whether there is a launch whose work threads share; else one thread is enough."""
        return any(launch.shared for launch in self.launches)

    @property
    def is_long(self) -> bool:
        """Whether it takes so long that waking sleeping threads is worth it from the beginning."""
        seconds = 0.0
        for call in self.plan.calls:
            cost = node_cost(call.node)
            seconds += cost.flops / SLOW_FLOPS
            seconds += (cost.bytes_read + cost.bytes_written) / SLOW_BYTES
            if seconds > LONG_SECONDS:
                return True
        return False

    def timed(self) -> EntryView:
        """The same, taking down the time around every launch."""
        symbol = entry_symbol(f"{self.plan.name}.{TIMED}")
        return replace(self, symbol=symbol, stamps=stamps_per_step(self.plan))


@dataclass
class Entries:
    """Collects the entries of a unit, and what they have in common.

    symbols: the kernel of each call, by the call's identity; roots: the C names of what callers
    pass in; literals: by type and value.
    """

    symbols: Mapping[int, str]
    roots: dict[str, str] = field(default_factory=dict)
    literals: dict[tuple[str, str], Literal] = field(default_factory=dict)

    def entry(self, plan: Plan) -> EntryView:
        """The exported function of a plan."""
        launches = tuple(launch for call in plan.calls for launch in self.launches(plan, call))
        used = {place.root for it in launches for place in it.places}
        io = list(enumerate(io_names(plan)))
        roots = tuple(
            Root(self.roots[name], index) for index, name in io if self.roots.get(name) in used
        )
        bad = next((index for index, name in io if name == root_of(STATE, BAD)), None)
        return EntryView(entry_symbol(plan.name), plan, roots, launches, bad)

    def launches(self, plan: Plan, call: Call) -> list[Launch]:
        """The launches of a call, a stage each."""
        made = ", ".join(map(str, call.node.outputs))
        places = self.places(plan, call)
        names = function_names(call, self.symbols[id(call)])
        return [
            Launch(made, launcher_name(name), places, stage.split)
            for name, stage in zip(names, call.choice.stages, strict=True)
        ]

    def places(self, plan: Plan, call: Call) -> tuple[Place, ...]:
        """Where the workspace, the operands and the results of a call lie."""
        workspace = Place("ARENA", call.workspace) if call.choice.workspace else NOTHING
        values = (*call.node.inputs, *call.node.outputs)
        return workspace, *(self.place(plan, value) for value in values)

    def place(self, plan: Plan, value: Value) -> Place:
        """Where a value lies."""
        place = plan.place[value.name]
        if place.kind == LITERAL:
            dtype = value.type.dtype
            key = ctype(dtype), literal(DTYPES[dtype].number(place.owner), dtype)
            made = self.literals.setdefault(key, Literal(f"literal_{len(self.literals)}", *key))
            return Place(f"at_{made.c_name}", 0)
        name = "ARENA" if place.root == ARENA else self.root(place.root)
        return Place(name, place.offset)

    def root(self, name: str) -> str:
        """`state_params` for the root `state params`, the same in all entries."""
        plain = re.sub(r"\W", "_", name)
        free = plain if plain not in self.roots.values() else f"{plain}_{len(self.roots)}"
        return self.roots.setdefault(name, free)


def launcher_name(function: str) -> str:
    """The function that calls a kernel's function with arguments out of a table."""
    return f"launch_{function}"


def launchers(kernels: Sequence[Shared]) -> list[Launcher]:
    """The launchers of kernels, one for each of their functions."""
    return [
        Launcher(launcher_name(name), name, argument_types(kernel.calls[0][1]))
        for kernel in kernels
        for name in kernel.functions
    ]


def argument_types(call: Call) -> tuple[str, ...]:
    """What the arguments of a kernel point to: its workspace, operands, results."""
    operands = (f"const {ctype(v.type.dtype)}" for v in call.node.inputs)
    return "char", *operands, *(ctype(v.type.dtype) for v in call.node.outputs)
