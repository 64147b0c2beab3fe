"""C for a search of choices: a plan's step whose tried calls run kernels that the caller passes in,
and units of nothing but such kernels.

The step is the program's own: the same kernels around the tried calls, the same threads that share
them, the same memory. So a candidate is timed with its operands as its neighbours leave them.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from noeira.codegen.c.functions import share_functions
from noeira.codegen.c.prelude import prelude
from noeira.codegen.c.target import CTarget
from noeira.codegen.definitions import identifiers
from noeira.codegen.entries import Entries, launchers
from noeira.codegen.environment import template
from noeira.codegen.language import C
from noeira.codegen.sharing import Shared, shared_kernels
from noeira.codegen.source import Source
from noeira.ir.plan import Call, Plan, Stage

STEP_SYMBOL, KERNELS_SYMBOL = "noeira_trial_step", "noeira_trial_kernels"


def trial_step(plan: Plan, tried: Sequence[int], target: CTarget) -> Source:
    """The step of a plan in which the calls of those indices are tried."""
    fixed = tuple(call for index, call in enumerate(plan.calls) if index not in tried)
    kernels = shared_kernels([replace(plan, calls=fixed)], target)
    shown = [one_stage(c) if index in tried else c for index, c in enumerate(plan.calls)]
    symbols = {id(call): kernel.symbol for kernel in kernels for _, call in kernel.calls}
    symbols |= {id(shown[index]): "" for index in tried}
    unit = Entries(symbols)
    entry = unit.entry(replace(plan, calls=tuple(shown)))
    launched = [index for index, call in enumerate(shown) for _ in call.choice.stages]
    trials = [tried.index(index) if index in tried else -1 for index in launched]
    launches = zip(entry.launches, trials, strict=True)
    entry = replace(
        entry,
        launches=tuple(it if n < 0 else replace(it, launcher="NULL") for it, n in launches),
    )
    text = template("c/unit/trial_step.c.j2").render(
        name=plan.name,
        target=target.name,
        symbol=STEP_SYMBOL,
        prelude=unit_prelude(kernels, target),
        kernels=[kernel.text for kernel in kernels],
        launchers=launchers(kernels),
        literals=list(unit.literals.values()),
        roots=list(unit.roots.values()),
        entry=entry,
        trials=trials,
        tried=len(tried),
    )
    return Source(C, plan.name, text, "")


def one_stage(call: Call) -> Call:
    """A tried call, of which one launch stands in the table, whatever is tried in its place."""
    return replace(call, choice=replace(call.choice, stages=(Stage("tried"),)))


def trial_kernels(plan: Plan, calls: Collection[Call], target: CTarget) -> list[Shared]:
    """The distinct kernels of calls of a plan, each with one of the choices to try."""
    return shared_kernels([replace(plan, calls=tuple(calls))], target)


def kernels_source(name: str, kernels: Sequence[Shared], target: CTarget) -> Source:
    """A unit that exports a table of pointers to the functions of all its kernels, in order."""
    text = template("c/unit/trial_kernels.c.j2").render(
        name=name,
        target=target.name,
        symbol=KERNELS_SYMBOL,
        prelude=unit_prelude(kernels, target),
        kernels=share_functions([(kernel.text, kernel.functions) for kernel in kernels]),
        launchers=launchers(kernels),
    )
    return Source(C, name, text, "")


def unit_prelude(kernels: Sequence[Shared], target: CTarget) -> str:
    """What the kernels of a unit need of the prelude."""
    return prelude(target.machine, identifiers("\n".join(kernel.text for kernel in kernels)))
