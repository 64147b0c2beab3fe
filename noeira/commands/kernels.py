"""`noeira kernels`: the distinct kernels of a step, what they take of a GPU, and of one of them its
text or what the compiler made of it.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from noeira.codegen.language import CUDA, C, Language
from noeira.codegen.sharing import comment
from noeira.commands.support.options import add_model, stages_from
from noeira.commands.support.usage import UsageError, no_such
from noeira.ir.cost import node_cost
from noeira.ir.graph import Node
from noeira.report.explain import chosen_by
from noeira.report.launches import RULE
from noeira.report.table import plural, table
from noeira.stages import Stages

if TYPE_CHECKING:
    from noeira.codegen.sharing import Shared

HEAD = ("kernel", "serves", "FLOPs", "bytes", "stages and choices")
# The languages that the forms of a kernel are for.
FORMS = {"asm": C, "ptx": CUDA, "sass": CUDA, "resources": CUDA}
# What to say of a form of another language than the target's.
INSTEAD = {
    CUDA: "is for --target cuda: C has --asm",
    C: "is for --target cpu: CUDA has --ptx, --sass and --resources",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The network, the kernel to show, and in what form."""
    add_model(parser, "target", "isa", "arch", "choices")
    parser.add_argument(
        "name", metavar="NAME", nargs="?", help="print this kernel; a part of its name will do"
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--asm", action="store_true", help="the kernel's assembly, not its C")
    form.add_argument("--ptx", action="store_true", help="its PTX, not its CUDA")
    form.add_argument("--sass", action="store_true", help="its machine instructions on the GPU")
    form.add_argument(
        "--resources",
        action="store_true",
        help="registers, shared memory, spills and occupancy, of all kernels or of NAME",
    )


def run(args: argparse.Namespace) -> int:
    """Print the list, or one kernel."""
    form = next((name for name in FORMS if vars(args)[name]), "")
    stages = stages_from(args)
    check_form(form, stages.source.language, args.name)
    if form == "resources":
        print(resources(stages, args.name))
    elif args.name is None:
        print(listing(stages))
    else:
        kernel = by_name(stages.kernels, args.name)
        print(in_form(form, stages, kernel), end="")
    return 0


def check_form(form: str, language: Language, name: str | None) -> None:
    """Raises UsageError for a form of another target, or of one kernel without its name."""
    if form and FORMS[form] is not language:
        raise UsageError(f"--{form} {INSTEAD[FORMS[form]]}")
    if form and form != "resources" and name is None:
        raise UsageError(f"--{form} shows one kernel: give its NAME too")


def in_form(form: str, stages: Stages, kernel: Shared) -> str:
    """One kernel: its text, or what the compiler made of it. Raises CompilerError."""
    if form == "asm":
        from noeira.commands.support.assembly import assembly

        return assembly(stages.source, kernel.functions, stages.target.machine)
    if form:
        from noeira.commands.support.machine_code import machine_code, ptx

        return (ptx if form == "ptx" else machine_code)(stages, kernel.functions)
    head = "".join(f"// {line}".rstrip() + "\n" for line in comment(kernel))
    return head + kernel.text


def resources(stages: Stages, name: str | None) -> str:
    """What the kernels, or one of them, take of the GPU. Raises CompilerError."""
    from noeira.report.resources import resource_lines, uses_of
    from noeira.runtime.targets import toolchain_for

    kernels = stages.kernels if name is None else [by_name(stages.kernels, name)]
    library = toolchain_for(stages.target).build(stages.source)
    lines = resource_lines(uses_of(kernels, library, stages.target.machine))
    return "\n".join([heading(stages, len(kernels)), "", *lines])


def listing(stages: Stages) -> str:
    """A line for each kernel; FLOPs and bytes are those of one launch."""
    rows = []
    for kernel in stages.kernels:
        calls = [call for _, call in kernel.calls]
        cost = node_cost(calls[0].node)
        rows.append(
            (
                kernel.symbol,
                ", ".join(str(call.node.outputs[0]) for call in calls),
                f"{cost.flops:,}",
                f"{cost.bytes_read + cost.bytes_written:,}",
                " ".join(map(str, calls[0].choice.stages)) + source(calls[0].node, stages),
            )
        )
    head = heading(stages, len(rows))
    return "\n".join([head, "", *table(HEAD, rows, right=(2, 3))])


def heading(stages: Stages, count: int) -> str:
    """The line above a table of so many kernels."""
    known = plural(count, "kernel")
    if count == len(stages.kernels):
        known += f", {plural(len(stages.plan.calls), 'launch', 'launches')}"
    return f"@{stages.plan.name} for {stages.target.name}: {known}"


def source(node: Node, stages: Stages) -> str:
    """Whether a table or the rule decided, where there is a table and something to decide."""
    found = chosen_by(node, stages.target) if stages.target.choices.rows else ""
    if not found:
        return ""
    return f"   by {found}" if found == RULE else f"   from {found}"


def by_name(kernels: list[Shared], name: str) -> Shared:
    """The kernel of that name, or the one whose name it is a part of. Raises UsageError."""
    found = [kernel for kernel in kernels if name in kernel.symbol]
    exact = [kernel for kernel in found if kernel.symbol == name]
    if len(exact or found) == 1:
        return (exact or found)[0]
    if not found:
        raise UsageError(no_such("kernel", name, [kernel.symbol for kernel in kernels]))
    matching = ", ".join(kernel.symbol for kernel in found)
    raise UsageError(f"{name} is a part of {len(found)} names: {matching}")
