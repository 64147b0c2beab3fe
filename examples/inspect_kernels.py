"""Follows a tiny network from its type to C, and prints every stage on the way."""

from __future__ import annotations

import re

from noeira.codegen.c.isa import AVX2
from noeira.codegen.c.target import CTarget
from noeira.ir.text.dump import Dump, parse_dump
from noeira.ir.text.plan import parse_plan
from noeira.job import job_of
from noeira.nn import SGD, CrossEntropy, Linear, LinearReLU, Sequential
from noeira.passes.pipeline import resume
from noeira.planning.memory import make_plan


class Tiny(Sequential[LinearReLU[4, 3], Linear[3, 2]]):
    """Two layers, the first fused with its activation."""


def show(title: str, text: object) -> None:
    """Print a stage under a title."""
    print(f"=== {title}\n\n{text}")


def main() -> None:
    """Print the stages of one training step."""
    show("the type", f"{Tiny.__base__!r}: {Tiny.shapes()}\n")
    job = job_of(Tiny, batch=8, loss=CrossEntropy, optimizer=SGD(lr=0.1))

    traced = job.step()
    show("the graph of the network, nothing done yet", traced)

    stages = list[Dump]()
    done = resume(traced)(traced, lambda name, dump: stages.append(dump))
    counts = [f"{len(d.graph.nodes):3} nodes after {d.done[-1].partition('{')[0]}" for d in stages]
    show("the passes", "\n".join([*counts, ""]))
    show("the graph of the training step, after the last pass", done)
    assert parse_dump(str(done)) == done

    target = CTarget(AVX2)
    plan = make_plan(done.graph, target.choose, target.name)
    show("the plan: its calls, and where every value lies", str(plan).partition("}\nplan ")[2])
    assert parse_plan(str(plan)) == plan
    assert [call.node for call in plan.calls] == list(done.graph.launching())

    source = target.render(Tiny.__name__, [plan])
    first = source.text.index("// @tiny.step")
    show(
        "the C of the first kernel: its inner loop",
        source.text[first : source.text.index("\n}\n", first) + 3],
    )
    calls = source.text[source.text.index("// The launches of tiny.step") :]
    show("the C of the step", calls[: calls.index("// The plans, as text")])
    launches = re.findall(r"^ +\{launch_k\d\d_\w+", calls, flags=re.MULTILINE)
    # On so tiny a network every call is one launch; a fused node is one call.
    assert len(launches) == len(plan.calls) == len(done.graph.launching())


if __name__ == "__main__":
    main()
