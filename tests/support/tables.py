"""A small network and tables of choices for it, for the tests of tables and of the search."""

from __future__ import annotations

from noeira.codegen.c.target import CTarget
from noeira.compiler import run_passes
from noeira.ir.choices import Choices, Row
from noeira.ir.graph import ComputeGraph, Node
from noeira.job import job_of
from noeira.nn import SGD, CrossEntropy, Linear, LinearReLU, Sequential
from noeira.runtime.c.toolchain import c_toolchain


class Small(Sequential[LinearReLU[20, 33], Linear[33, 3]]):
    """Sizes that no vector length divides."""


BATCH = 37


def step_graph() -> ComputeGraph:
    """The training step of `Small`."""
    job = job_of(Small, loss=CrossEntropy, optimizer=SGD(lr=0.1), batch=BATCH)
    return run_passes(job.step()).graph


def products(graph: ComputeGraph, target: CTarget) -> list[Node]:
    """The nodes with something to choose."""
    return [node for node in graph.launching() if target.problem(node) is not None]


def other_choices(target: CTarget) -> Choices:
    """A table in which every product of the step is run in another way than by rule."""
    rows = {}
    for node in products(step_graph(), target):
        problem = target.problem(node)
        assert problem is not None
        rows[problem] = Row(problem, target.candidates(node)[-1].stages, "slower")
    return Choices(name="other.choices").merged(rows.values(), head=("made by hand",))


def host() -> CTarget:
    """This machine's target."""
    toolchain = c_toolchain()
    assert toolchain is not None
    return toolchain.target
