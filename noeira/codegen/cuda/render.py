"""Plans to one unit of CUDA: prelude, kernels under the IR lines they serve, and as comments the
launches of every plan.

What a C unit does in its entries, the host does here: it walks through a plan's calls and launches
the kernel of each stage. `Source.symbols` says which that is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from noeira.codegen.cuda.launches import stage_launches
from noeira.codegen.cuda.prelude import device_prelude
from noeira.codegen.definitions import identifiers
from noeira.codegen.embedded import plan_strings
from noeira.codegen.environment import template
from noeira.codegen.language import CUDA
from noeira.codegen.sharing import kernel_views, shared_kernels
from noeira.codegen.source import Source
from noeira.ir.plan import Call, Plan

if TYPE_CHECKING:
    from noeira.codegen.cuda.target import CudaTarget


def render_cuda(
    name: str, plans: Sequence[Plan], target: CudaTarget, earlier: Sequence[Plan] = ()
) -> Source:
    """The CUDA unit of a program's plans; `earlier`: the plans of another unit, whose kernels keep
    their names.
    """
    kernels = shared_kernels(plans, target, earlier)
    symbols = {id(call): kernel.symbol for kernel in kernels for _, call in kernel.calls}
    body = "\n".join(kernel.text for kernel in kernels)
    plans_text = "".join(map(str, plans))
    text = template("cuda/unit/unit.cu.j2").render(
        name=name,
        target=target.name,
        prelude=device_prelude(identifiers(body)),
        kernels=kernel_views(kernels),
        launches=[(plan.name, launch_lines(plan, symbols)) for plan in plans],
        plan_lines=plan_strings(plans_text),
    )
    return Source(
        CUDA,
        name,
        text,
        plans_text,
        parsed=tuple(plans),
        symbols=tuple(tuple(symbols[id(call)] for call in plan.calls) for plan in plans),
    )


def launch_lines(plan: Plan, symbols: dict[int, str]) -> list[str]:
    """The launches of a plan in order, as one would write them in CUDA."""
    return [line for call in plan.calls for line in call_lines(plan, call, symbols[id(call)])]


def call_lines(plan: Plan, call: Call, symbol: str) -> list[str]:
    """The launches of a call, one a stage."""
    workspace = f"arena + {call.workspace}" if call.choice.workspace else "NULL"
    operands = (f"%{v.name}" for v in (*call.node.inputs, *call.node.outputs))
    arguments = ", ".join([workspace, *operands])
    found = []
    for one in stage_launches(call, symbol):
        shape = [one.grid, one.block, *([one.shared] if one.shared else [])]
        found.append(f"{one.kernel}<<<{', '.join(map(str, shape))}>>>({arguments})")
    return found
