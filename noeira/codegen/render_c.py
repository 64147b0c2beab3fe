"""Plans to one unit of C: prelude, kernels under the IR lines they serve, one entry a plan."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from noeira.codegen.environment import template
from noeira.codegen.interface import TIMED, entry_symbol, io_names, stamps_per_step
from noeira.codegen.kernels import function_names
from noeira.codegen.language import C
from noeira.codegen.parts import find_sections
from noeira.codegen.prelude import identifiers, prelude
from noeira.codegen.sharing import kernel_views, plan_strings, shared_kernels
from noeira.codegen.source import Source
from noeira.ir.graph import Value
from noeira.ir.op import node_cost
from noeira.ir.plan import ARENA, LITERAL, STATE, Call, Plan
from noeira.ir.states import BAD

if TYPE_CHECKING:
    from noeira.codegen.c import CTarget

# An entry that one thread takes longer for than this, at such a pace a second, is a long one.
LONG_SECONDS, SLOW_FLOPS, SLOW_BYTES = 200e-6, 50e9, 20e9


@dataclass(frozen=True)
class FunctionView:
    """The function of a stage, its number in the entry, and whether threads share its work."""

    name: str
    number: int
    shared: bool


@dataclass(frozen=True)
class CallView:
    """One call in an entry: the functions of its stages, their arguments, what it makes."""

    comment: str
    functions: tuple[FunctionView, ...]
    arguments: tuple[str, ...]


@dataclass(frozen=True)
class Root:
    """Memory that the caller passes in: its names in plan and C, its place in the table."""

    name: str
    c_name: str
    index: int


@dataclass(frozen=True)
class EntryView:
    """The exported function of a plan; `stamps`: how many times a step of it takes down."""

    symbol: str
    plan: Plan
    roots: tuple[Root, ...]
    calls: tuple[CallView, ...]
    bad: int | None
    stamps: int = 0

    @property
    def shared(self) -> bool:
        """Whether there is a call whose work threads share; else one thread is enough."""
        return any(function.shared for call in self.calls for function in call.functions)

    @property
    def is_long(self) -> bool:
        """Whether it takes so long that waking sleeping threads is worth it from the beginning."""
        costs = [node_cost(call.node) for call in self.plan.calls]
        moved = sum(cost.bytes_read + cost.bytes_written for cost in costs)
        seconds = sum(cost.flops for cost in costs) / SLOW_FLOPS + moved / SLOW_BYTES
        return seconds > LONG_SECONDS

    def timed(self) -> EntryView:
        """The same, taking down the time around every function."""
        symbol = entry_symbol(f"{self.plan.name}.{TIMED}")
        return replace(self, symbol=symbol, stamps=stamps_per_step(self.plan))


def render_c(
    name: str,
    plans: Sequence[Plan],
    target: CTarget,
    timed: bool = False,
    earlier: Sequence[Plan] = (),
) -> Source:
    """The C unit of a program's plans; `timed`: with a second entry for each, for measuring;
    `earlier`: the plans of another unit, whose kernels keep their names.
    """
    kernels = shared_kernels(plans, target, earlier)
    symbols = {id(call): kernel.symbol for kernel in kernels for _, call in kernel.calls}
    literals = dict[str, str]()
    entries = tuple(entry_view(plan, symbols, literals, target) for plan in plans)
    if timed:
        entries += tuple(entry.timed() for entry in entries)
    body = "\n".join(kernel.text for kernel in kernels)
    text = template("unit.c.j2").render(
        name=name,
        target=target.name,
        prelude=prelude(target.isa, identifiers(body)),
        literals=[(symbol, *text.split(" ", 1)) for text, symbol in literals.items()],
        kernels=kernel_views(kernels),
        entries=entries,
        timed=timed,
        plan_lines=plan_strings(plans),
    )
    texts = [(kernel.text, kernel.functions) for kernel in kernels]
    sections = find_sections(text, texts, target.isa)
    return Source(C, name, text, "".join(map(str, plans)), sections, tuple(plans))


def entry_view(
    plan: Plan, symbols: dict[int, str], literals: dict[str, str], target: CTarget
) -> EntryView:
    """The exported function of a plan."""
    roots = [Root(name, c_name(name), index) for index, name in enumerate(io_names(plan))]
    names = {root.name: root.c_name for root in roots} | {ARENA: ARENA}

    def address(value: Value, written: bool) -> str:
        place = plan.place[value.name]
        ctype = target.ctype(value.type.dtype)
        if place.kind == LITERAL:
            return literals.setdefault(f"{ctype} {place.owner}", f"literal_{len(literals)}")
        const = "" if written else "const "
        return f"({const}{ctype} *)({names[place.root]} + {place.offset})"

    numbers = itertools.count()
    calls = tuple(
        CallView(
            ", ".join(map(str, call.node.outputs)),
            function_views(call, symbols[id(call)], numbers),
            (
                f"{ARENA} + {call.workspace}" if call.choice.workspace else "NULL",
                *(address(v, False) for v in call.node.inputs),
                *(address(v, True) for v in call.node.outputs),
            ),
        )
        for call in plan.calls
    )
    bad = next((root.index for root in roots if root.name == f"{STATE} {BAD}"), None)
    words = {word for call in calls for text in call.arguments for word in re.findall(r"\w+", text)}
    used = tuple(root for root in roots if root.c_name in words)
    return EntryView(entry_symbol(plan.name), plan, used, calls, bad)


def function_views(call: Call, symbol: str, numbers: Iterator[int]) -> tuple[FunctionView, ...]:
    """The functions of a call's stages, numbered."""
    names = zip(function_names(call, symbol), call.choice.stages, strict=True)
    return tuple(FunctionView(name, next(numbers), s.split) for name, s in names)


def c_name(root: str) -> str:
    """`state_params` for the root `state params`."""
    return re.sub(r"\W", "_", root)
