"""C for a search of choices: a plan's step whose tried calls run kernels that the caller passes in,
and units of nothing but such kernels.

The step is the program's own: the same kernels around the tried calls, the same threads that share
them, the same memory. So a candidate is timed with its operands as its neighbours leave them.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from noeira.codegen.c import CTarget
from noeira.codegen.environment import template
from noeira.codegen.functions import share_functions
from noeira.codegen.language import C
from noeira.codegen.prelude import identifiers, prelude
from noeira.codegen.render_c import CallView, FunctionView, entry_view
from noeira.codegen.sharing import Shared, shared_kernels
from noeira.codegen.source import Source
from noeira.ir.plan import Call, Plan

STEP_SYMBOL, KERNELS_SYMBOL = "noeira_trial_step", "noeira_trial_kernels"


@dataclass(frozen=True)
class TrialCall:
    """A call of the step. number: its place among the tried ones, -1 if it is not one of them;
    pointer: the C type of a pointer to its functions.
    """

    view: CallView
    number: int
    pointer: str

    @property
    def functions(self) -> tuple[FunctionView, ...]:
        """What it runs in turn; whichever functions are tried, one at a time is known here."""
        return self.view.functions if self.number < 0 else self.view.functions[:1]


def trial_step(plan: Plan, tried: Sequence[int], target: CTarget) -> Source:
    """The step of a plan in which the calls of those indices are tried."""
    fixed = tuple(call for index, call in enumerate(plan.calls) if index not in tried)
    kernels = shared_kernels([replace(plan, calls=fixed)], target)
    symbols = {id(call): kernel.symbol for kernel in kernels for _, call in kernel.calls}
    symbols |= {id(plan.calls[index]): "tried" for index in tried}
    literals = dict[str, str]()
    entry = entry_view(plan, symbols, literals, target)
    calls = [
        TrialCall(view, tried.index(i) if i in tried else -1, pointer_type(plan.calls[i], target))
        for i, view in enumerate(entry.calls)
    ]
    text = template("trial_step.c.j2").render(
        name=plan.name,
        target=target.name,
        symbol=STEP_SYMBOL,
        prelude=unit_prelude(kernels, target),
        literals=[(symbol, *text.split(" ", 1)) for text, symbol in literals.items()],
        kernels=[kernel.text for kernel in kernels],
        roots=entry.roots,
        calls=calls,
        tried=len(tried),
    )
    return Source(C, plan.name, text, "")


def pointer_type(call: Call, target: CTarget) -> str:
    """The C type of a pointer to a function of a call's kernel."""
    operands = [f"const {target.ctype(v.type.dtype)} *" for v in call.node.inputs]
    results = [f"{target.ctype(v.type.dtype)} *" for v in call.node.outputs]
    return f"void (*)({', '.join(['int', 'int', 'char *', *operands, *results])})"


def trial_kernels(plan: Plan, calls: Collection[Call], target: CTarget) -> list[Shared]:
    """The distinct kernels of calls of a plan, each with one of the choices to try."""
    return shared_kernels([replace(plan, calls=tuple(calls))], target)


def kernels_source(name: str, kernels: Sequence[Shared], target: CTarget) -> Source:
    """A unit that exports a table of pointers to the functions of all its kernels, in order."""
    text = template("trial_kernels.c.j2").render(
        name=name,
        target=target.name,
        symbol=KERNELS_SYMBOL,
        prelude=unit_prelude(kernels, target),
        kernels=share_functions([(kernel.text, kernel.functions) for kernel in kernels]),
        functions=[name for kernel in kernels for name in kernel.functions],
    )
    return Source(C, name, text, "")


def unit_prelude(kernels: Sequence[Shared], target: CTarget) -> str:
    """What the kernels of a unit need of the prelude."""
    return prelude(target.isa, identifiers("\n".join(kernel.text for kernel in kernels)))
