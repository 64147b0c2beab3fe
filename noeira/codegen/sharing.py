"""The distinct kernels of plans: calls share one if their kernels differ in nothing but the name.

In a unit every kernel stands under the graph lines it serves,
with where they come from and what they cost.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

from noeira.codegen.kernel import kernel_text
from noeira.codegen.target import Target
from noeira.codegen.view import function_names
from noeira.ir.cost import node_cost
from noeira.ir.graph import Value
from noeira.ir.plan import Call, Plan
from noeira.ir.text.printer import node_lines
from noeira.ir.types import TensorType

# Stands for a kernel's name while its text is compared with that of others.
SYMBOL = "KERNEL"
# Names of kernels end before they get longer.
LONGEST_SYMBOL = 50
# Texts of kernels that are kept for later entries and units: one has a few dozen, or a few for each
# of a thousand layers.
TEXTS_KEPT = 1 << 13


@dataclass
class Shared:
    """A kernel, and the calls it serves."""

    symbol: str
    text: str
    calls: list[tuple[Plan, Call]] = field(default_factory=list)

    @property
    def functions(self) -> tuple[str, ...]:
        """The functions of its calls, a stage each."""
        return function_names(self.calls[0][1], self.symbol)


@dataclass(frozen=True)
class KernelView:
    """A kernel in the unit: the comment above it, and its text."""

    comment: tuple[str, ...]
    text: str


def kernel_views(kernels: Sequence[Shared]) -> list[KernelView]:
    """What a unit shows of kernels."""
    return [KernelView(tuple(comment(kernel)), kernel.text) for kernel in kernels]


def shared_kernels(
    plans: Sequence[Plan], target: Target, earlier: Sequence[Plan] = ()
) -> list[Shared]:
    """Every distinct kernel in order of first use, with a number in its name: `k03_linear_relu`.

    earlier: the plans of another unit of the program: its kernels have the same names here.
    """
    known: dict[str, Shared] = {}
    own: dict[Hashable, str] = {}

    def shared(call: Call) -> Shared:
        text = text_of(call, target, own)
        if text not in known:
            parts = "_".join(re.sub(r"\W", "_", part.op.name) for part in call.node.parts)
            symbol = f"k{len(known):02}_{parts}"
            if len(symbol) > LONGEST_SYMBOL:
                symbol = symbol[:LONGEST_SYMBOL].rpartition("_")[0]
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


def text_of(call: Call, target: Target, own: dict[Hashable, str] | None = None) -> str:
    """The text of a call's kernel, rendered once for all calls that are alike but for names.

    own: those of ops that are not noeira's, whose templates may be another text in the next unit.
    """
    node, numbers = call.node, dict[str, int]()
    texts = _texts
    if any(part.op.foreign for part in node.parts):
        texts = {} if own is None else own

    def places(values: Sequence[Value]) -> tuple[tuple[int, TensorType], ...]:
        return tuple((numbers.setdefault(v.name, len(numbers)), v.type) for v in values)

    ends = places(node.inputs), places(node.outputs)
    # Attributes by their text: 0.0 and -0.0 are equal, but no numbers to share a kernel.
    parts = tuple((p.op, repr(p.attrs), places(p.inputs), places(p.outputs)) for p in node.parts)
    key = target.machine, call.choice, ends, parts
    if key not in texts:
        texts[key] = kernel_text(call, target, SYMBOL)
        if len(texts) > TEXTS_KEPT:
            texts.pop(next(iter(texts)))
    return texts[key]


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
