"""A small job for tests of passes."""

from __future__ import annotations

from noeira.ir.graph import ComputeGraph
from noeira.ir.text.dump import Dump
from noeira.job import job_of
from noeira.nn import Adam, CrossEntropy, LinearReLU
from noeira.passes.base import Pass
from noeira.passes.pipeline import Pipeline

SMALL = job_of(LinearReLU[4, 3], batch=2, loss=CrossEntropy, optimizer=Adam())


def run(graph: ComputeGraph, *passes: Pass) -> ComputeGraph:
    """A pipeline over a graph."""
    return Pipeline(passes)(Dump(graph)).graph
