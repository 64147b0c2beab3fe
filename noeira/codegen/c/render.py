"""Plans to one unit of C: prelude, kernels under the IR lines they serve, one entry a plan."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from noeira.codegen.c.parts import find_sections
from noeira.codegen.c.prelude import prelude
from noeira.codegen.definitions import identifiers
from noeira.codegen.embedded import plan_strings
from noeira.codegen.entries import Entries, launchers
from noeira.codegen.environment import template
from noeira.codegen.language import C
from noeira.codegen.sharing import kernel_views, shared_kernels
from noeira.codegen.source import Source
from noeira.ir.plan import Plan

if TYPE_CHECKING:
    from noeira.codegen.c.target import CTarget


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
    unit = Entries({id(call): kernel.symbol for kernel in kernels for _, call in kernel.calls})
    entries = tuple(unit.entry(plan) for plan in plans)
    if timed:
        entries += tuple(entry.timed() for entry in entries)
    body = "\n".join(kernel.text for kernel in kernels)
    plans_text = "".join(map(str, plans))
    beginning = prelude(target.machine, identifiers(body))
    text = template("c/unit/unit.c.j2").render(
        name=name,
        target=target.name,
        prelude=beginning,
        kernels=kernel_views(kernels),
        launchers=launchers(kernels),
        literals=list(unit.literals.values()),
        roots=list(unit.roots.values()),
        entries=entries,
        timed=timed,
        plan_lines=plan_strings(plans_text),
    )
    texts = [(kernel.text, kernel.functions) for kernel in kernels]
    sections = find_sections(text, beginning, texts, target.machine)
    return Source(C, name, text, plans_text, sections, tuple(plans))
