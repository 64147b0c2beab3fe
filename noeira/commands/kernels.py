"""`noeira kernels`: the distinct kernels of a step, and of one of them its C or its assembly."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from noeira.codegen.kernels import function_names
from noeira.codegen.render import comment
from noeira.commands.network import add_model, stages_from
from noeira.commands.usage import UsageError
from noeira.errors import NoeiraError
from noeira.ir.graph import Node
from noeira.ir.op import node_cost
from noeira.report.explain import RULE, chosen_by
from noeira.report.stages import Stages
from noeira.report.table import plural, table

if TYPE_CHECKING:
    from noeira.codegen.render import Shared

HEAD = ("kernel", "serves", "FLOPs", "bytes", "stages and choices")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The network, and the kernel to show."""
    add_model(parser)
    parser.add_argument(
        "name", metavar="NAME", nargs="?", help="print this kernel; a part of its name will do"
    )
    parser.add_argument("--asm", action="store_true", help="the kernel's assembly, not its C")


def run(args: argparse.Namespace) -> int:
    """Print the list, or one kernel."""
    if args.asm and args.name is None:
        raise UsageError("--asm shows one kernel: give its NAME too")
    stages = stages_from(args)
    if args.name is None:
        print(listing(stages))
        return 0
    kernel = by_name(stages.kernels, args.name)
    if args.asm:
        from noeira.commands.assembly import assembly

        names = function_names(kernel.calls[0][1], kernel.symbol)
        print(assembly(stages.source, names, stages.target.isa), end="")
        return 0
    print("\n".join(f"// {line}".rstrip() for line in comment(kernel)))
    print(kernel.text, end="")
    return 0


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
    launches = plural(len(stages.plan.calls), "launch", "launches")
    head = (
        f"@{stages.plan.name} for {stages.target.name}: {plural(len(rows), 'kernel')}, {launches}"
    )
    return "\n".join([head, "", *table(HEAD, rows, right=(2, 3))])


def source(node: Node, stages: Stages) -> str:
    """Whether a table or the rule decided, where there is a table and something to decide."""
    found = chosen_by(node, stages.target) if stages.target.choices.rows else ""
    if not found:
        return ""
    return f"   by {found}" if found == RULE else f"   from {found}"


def by_name(kernels: list[Shared], name: str) -> Shared:
    """The kernel of that name, or the one whose name it is a part of. Raises NoeiraError."""
    found = [kernel for kernel in kernels if name in kernel.symbol]
    exact = [kernel for kernel in found if kernel.symbol == name]
    if len(exact or found) == 1:
        return (exact or found)[0]
    if not found:
        known = ", ".join(kernel.symbol for kernel in kernels)
        raise NoeiraError(f"no kernel is called {name}; there are {known}")
    matching = ", ".join(kernel.symbol for kernel in found)
    raise NoeiraError(f"{name} is a part of {len(found)} names: {matching}")
