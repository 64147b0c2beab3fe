"""Plans to one translation unit: prelude, kernels under the IR lines they serve, one entry a plan.

Kernels are shared by their text: two calls whose kernels differ in nothing but their name are one
function. Every kernel stands under the graph lines it serves, with where they come from and what
they cost.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from noeira.codegen.environment import template
from noeira.codegen.interface import TIMED, entry_symbol, io_names, stamps_per_step
from noeira.codegen.kernels import function_names, kernel_text
from noeira.codegen.parts import find_sections
from noeira.codegen.prelude import identifiers, prelude
from noeira.codegen.source import Source
from noeira.ir.graph import Value
from noeira.ir.op import node_cost
from noeira.ir.plan import ARENA, LITERAL, STATE, Call, Plan
from noeira.ir.states import BAD
from noeira.ir.text import node_lines
from noeira.ir.types import TensorType

if TYPE_CHECKING:
    from noeira.codegen.c import CTarget

# Stands for a kernel's name while its text is compared with that of others.
SYMBOL = "KERNEL"
SMALL = 80
# An entry that one thread takes longer for than this, at such a pace a second, is a long one.
LONG_SECONDS, SLOW_FLOPS, SLOW_BYTES = 200e-6, 50e9, 20e9
# Texts of kernels that are kept for later units: a unit has a few dozen.
TEXTS_KEPT = 1024


@dataclass
class Shared:
    """A kernel, and the calls it serves."""

    symbol: str
    text: str
    calls: list[tuple[Plan, Call]] = field(default_factory=list)

    @property
    def functions(self) -> tuple[str, ...]:
        """The functions that an entry calls, a stage each."""
        return function_names(self.calls[0][1], self.symbol)


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


@dataclass(frozen=True)
class KernelView:
    """A kernel in the unit: the comment above it, and its text."""

    comment: tuple[str, ...]
    text: str


def render(
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
        kernels=[KernelView(tuple(comment(kernel)), kernel.text) for kernel in kernels],
        entries=entries,
        timed=timed,
        plan_lines=plan_strings(plans),
    )
    texts = [(kernel.text, kernel.functions) for kernel in kernels]
    sections = find_sections(text, texts, target.isa)
    return Source("c", name, text, "".join(map(str, plans)), sections, tuple(plans))


def shared_kernels(
    plans: Sequence[Plan], target: CTarget, earlier: Sequence[Plan] = ()
) -> list[Shared]:
    """Every distinct kernel in order of first use, with a number in its name: `k03_linear_relu`.

    earlier: the plans of another unit of the program: its kernels have the same names here.
    """
    known: dict[str, Shared] = {}

    def shared(call: Call) -> Shared:
        text = text_of(call, target)
        if text not in known:
            parts = "_".join(re.sub(r"\W", "_", part.op.name) for part in call.node.parts)
            symbol = f"k{len(known):02}_{parts}"[:SMALL]
            known[text] = Shared(symbol, re.sub(rf"\b{SYMBOL}(?=\b|_)", symbol, text))
        return known[text]

    for plan in earlier:
        for call in plan.calls:
            shared(call)
    found: dict[str, Shared] = {}
    for plan in plans:
        for call in plan.calls:
            kernel = shared(call)
            found.setdefault(kernel.symbol, kernel).calls.append((plan, call))
    return list(found.values())


def renumbered(text: str) -> str:
    """A unit in which kernels are numbered in order, whatever other unit they have numbers from."""
    numbers = dict[str, int]()
    return re.sub(r"\bk(\d+)(?=_)", lambda m: f"k{numbers.setdefault(m[1], len(numbers)):02}", text)


def text_of(call: Call, target: CTarget) -> str:
    """The text of a call's kernel, rendered once for all calls that are alike but for names."""
    node, numbers = call.node, dict[str, int]()
    if any(part.op.foreign for part in node.parts):
        return kernel_text(call, target, SYMBOL)

    def places(values: Sequence[Value]) -> tuple[tuple[int, TensorType], ...]:
        return tuple((numbers.setdefault(v.name, len(numbers)), v.type) for v in values)

    own = places(node.inputs), places(node.outputs)
    # Attributes by their text: 0.0 and -0.0 are equal, but no numbers to share a kernel.
    parts = tuple((p.op, repr(p.attrs), places(p.inputs), places(p.outputs)) for p in node.parts)
    key = target.isa, call.choice, own, parts
    if key not in _texts:
        _texts[key] = kernel_text(call, target, SYMBOL)
        if len(_texts) > TEXTS_KEPT:
            _texts.pop(next(iter(_texts)))
    return _texts[key]


_texts: dict[Hashable, str] = {}


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


def plan_strings(plans: Sequence[Plan]) -> list[str]:
    """The text of the plans as C string literals, a line each."""
    text = "".join(map(str, plans))
    return [
        '"' + line.replace("\\", "\\\\").replace('"', '\\"') + '\\n"' for line in text.splitlines()
    ]
