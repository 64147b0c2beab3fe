"""Plans to one translation unit: prelude, kernels under the IR lines they serve, one entry a plan.

Kernels are shared by their text: two calls whose kernels differ in nothing but their name are one
function. Every kernel stands under the graph lines it serves, with where they come from and what
they cost.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from noeira.codegen.environment import template
from noeira.codegen.interface import entry_symbol, io_names
from noeira.codegen.kernels import function_names, kernel_text
from noeira.codegen.prelude import identifiers, prelude
from noeira.codegen.source import Source
from noeira.ir.graph import Value
from noeira.ir.op import node_cost
from noeira.ir.plan import ARENA, LITERAL, STATE, Call, Plan
from noeira.ir.states import BAD
from noeira.ir.text import node_lines

if TYPE_CHECKING:
    from noeira.codegen.c import CTarget

# Stands for a kernel's name while its text is compared with that of others.
SYMBOL = "KERNEL"
SMALL = 80


@dataclass
class Shared:
    """A kernel, and the calls it serves."""

    symbol: str
    text: str
    calls: list[tuple[Plan, Call]] = field(default_factory=list)


@dataclass(frozen=True)
class CallView:
    """One call in an entry: the functions of its stages, their arguments, what it makes."""

    comment: str
    functions: tuple[str, ...]
    arguments: tuple[str, ...]


@dataclass(frozen=True)
class Root:
    """Memory that the caller passes in: its names in plan and C, its place in the table."""

    name: str
    c_name: str
    index: int


@dataclass(frozen=True)
class EntryView:
    """The exported function of a plan."""

    symbol: str
    plan: Plan
    roots: tuple[Root, ...]
    calls: tuple[CallView, ...]
    bad: str | None


@dataclass(frozen=True)
class KernelView:
    """A kernel in the unit: the comment above it, and its text."""

    comment: tuple[str, ...]
    text: str


def render(name: str, plans: Sequence[Plan], target: CTarget) -> Source:
    """The C unit of a program's plans."""
    kernels = shared_kernels(plans, target)
    symbols = {id(call): kernel.symbol for kernel in kernels for _, call in kernel.calls}
    literals = dict[str, str]()
    entries = tuple(entry_view(plan, symbols, literals, target) for plan in plans)
    body = "\n".join(kernel.text for kernel in kernels)
    text = template("unit.c.j2").render(
        name=name,
        target=target.name,
        prelude=prelude(target.isa, identifiers(body)),
        literals=[(symbol, *text.split(" ", 1)) for text, symbol in literals.items()],
        kernels=[KernelView(tuple(comment(kernel)), kernel.text) for kernel in kernels],
        entries=entries,
        plan_lines=plan_strings(plans),
    )
    return Source("c", name, text, "".join(map(str, plans)))


def shared_kernels(plans: Sequence[Plan], target: CTarget) -> list[Shared]:
    """Every distinct kernel, named `k03_linear_relu` in order of first use."""
    found: dict[str, Shared] = {}
    for plan in plans:
        for call in plan.calls:
            text = kernel_text(call, target, SYMBOL)
            if text not in found:
                parts = "_".join(re.sub(r"\W", "_", part.op.name) for part in call.node.parts)
                symbol = f"k{len(found):02}_{parts}"[:SMALL]
                found[text] = Shared(symbol, re.sub(rf"\b{SYMBOL}(?=\b|_)", symbol, text))
            found[text].calls.append((plan, call))
    return list(found.values())


def comment(kernel: Shared) -> list[str]:
    """The graph lines that a kernel serves, each once, and their cost."""
    lines = dict.fromkeys(
        line
        for plan, call in kernel.calls
        for line in (f"@{plan.name}", *node_lines(call.node, "  "))
    )
    cost = node_cost(kernel.calls[0][1].node)
    moved = f"{cost.bytes_read:,} bytes read, {cost.bytes_written:,} written"
    return [*lines, f"{cost.flops:,} FLOPs, {moved}"]


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

    calls = tuple(
        CallView(
            ", ".join(map(str, call.node.outputs)),
            function_names(call, symbols[id(call)]),
            (
                f"{ARENA} + {call.workspace}" if call.choice.workspace else "NULL",
                *(address(v, False) for v in call.node.inputs),
                *(address(v, True) for v in call.node.outputs),
            ),
        )
        for call in plan.calls
    )
    bad = names.get(f"{STATE} {BAD}")
    words = {word for call in calls for text in call.arguments for word in re.findall(r"\w+", text)}
    used = tuple(root for root in roots if root.c_name in words or root.c_name == bad)
    return EntryView(entry_symbol(plan.name), plan, used, calls, bad)


def c_name(root: str) -> str:
    """`state_params` for the root `state params`."""
    return re.sub(r"\W", "_", root)


def plan_strings(plans: Sequence[Plan]) -> list[str]:
    """The text of the plans as C string literals, a line each."""
    text = "".join(map(str, plans))
    return [
        '"' + line.replace("\\", "\\\\").replace('"', '\\"') + '\\n"' for line in text.splitlines()
    ]
