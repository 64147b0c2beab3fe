"""What the backward pass computes again: which values it keeps, where copies stand, what of the
arena is left, and that no bit changes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from graphs import arrays, stages
from hypothesis import given, settings
from hypothesis import strategies as st
from timing import near_linear

from noeira.codegen.c.isa import AVX2
from noeira.codegen.c.target import CTarget
from noeira.errors import CompositionError, FusionError
from noeira.ir.graph import RECOMPUTED, ComputeGraph, Node
from noeira.ir.interpret import interpret
from noeira.ir.states import GRADS
from noeira.ir.storage import Memory
from noeira.ir.text.dump import Dump
from noeira.job import Job, job_of
from noeira.nn import (
    GELU,
    MSE,
    SGD,
    Adam,
    Checkpointed,
    ClipNorm,
    Dropout,
    Fused,
    InputGradient,
    Linear,
    LinearReLU,
    LinearTanh,
    Parallel,
    ReLU,
    Repeat,
    Residual,
    Sequential,
    Tanh,
)
from noeira.passes.recompute import Recompute
from noeira.planning.memory import make_plan
from noeira.tracing import trace

Block = Sequential[Linear[4, 4], GELU, Fused[Linear[4, 4], ReLU, Dropout[0.5]]]
Nested = Sequential[Checkpointed[Block], Checkpointed[Sequential[Checkpointed[Block], Tanh]], GELU]


def bare(net: Any) -> Any:
    """The type without Checkpointed, all else as it is."""
    if net.family is Checkpointed:
        return bare(net.INNER)
    if net.family in (Sequential, Parallel):
        return net.family[tuple(map(bare, net.parts()))]
    if net.family is Residual:
        return Residual[bare(net.INNER)]
    return Repeat[net.COUNT, bare(net.INNER)] if net.family is Repeat else net


def job(net: Any, **options: Any) -> Job:
    """A training of a network."""
    given: Any = {"batch": 3, "loss": MSE, "optimizer": Adam(), **options}
    return job_of(net, **given)


def after(dump: Dump, name: str) -> ComputeGraph:
    """The graph after the pass of that name."""
    return next(one.graph for one in stages(dump) if one.done[-1].startswith(name))


def by_pass(graph: ComputeGraph, name: str) -> list[Node]:
    """The nodes that a pass made."""
    return [node for node in graph.nodes if node.origin.by == name]


def test_what_is_copied(golden: Callable[..., None]) -> None:
    graph = after(job(Nested).step(), "recompute")
    assert by_pass(graph, "recompute")
    head = [f"{region.path} in {region.outer or '-'}: {region.type}" for region in graph.regions]
    lines = [str(n).strip().rpartition("   from")[0] + f"   {n.origin.by}" for n in graph.nodes]
    golden("\n".join([*head, "", *lines]))


def test_without_it_nothing_is_different() -> None:
    plain = job(bare(Nested))
    assert "recompute" not in str(plain.step()) and not plain.step().graph.regions
    traced = job(Nested).step()
    assert traced.todo == ("vjp", "recompute", *plain.step().todo[1:])
    nodes = tuple(replace(node, region="") for node in traced.graph.nodes)
    assert replace(traced.graph, regions=(), nodes=nodes) == plain.step().graph
    # Evaluation has no backward pass.
    assert trace(Nested, phase="eval", loss=MSE) == trace(bare(Nested), phase="eval", loss=MSE)


def kept_values(graph: ComputeGraph) -> set[str]:
    """What is read outside of all regions around the node that makes it, by something else than the
    backward pass, said by paths alone.
    """
    memory, outermost, homes = Memory(graph), dict[str, str](), dict[str, str]()
    for region in graph.regions:
        outermost[region.path] = outermost.get(region.outer, region.path)
    for node in graph.nodes:
        homes |= {v.name: outermost.get(node.region, "") for v in node.outputs}
    found = {memory.base(v.name)[0] for v in graph.results()}
    for node in graph.nodes:
        if node.origin.by == "trace":
            bases = (memory.base(v.name)[0] for v in node.inputs)
            found |= {b for b in bases if homes.get(b) != outermost.get(node.region, "")}
    return found


def check_kept(graph: ComputeGraph) -> None:
    """The backward pass reads nothing that was made inside a region, nor does any of its copies."""
    made = {v.name for n in graph.nodes if n.region and n.launches for v in n.outputs}
    memory, kept = Memory(graph), kept_values(graph)
    for node in (*by_pass(graph, "vjp"), *by_pass(graph, "recompute")):
        read = {memory.base(v.name)[0] for v in node.inputs}
        assert read & made <= kept, node


def same_bits(net: Any, **options: Any) -> None:
    """A step of a network and of it without Checkpointed, run by the reference."""
    found = []
    for kind in (net, bare(net)):
        graph = stages(job(kind, **options).step())[-1].graph
        values = interpret(graph, arrays(graph))
        names = [v.name for v in graph.outputs] + [u.new.name for u in graph.updates]
        found.append({name: np.asarray(values[name]).tobytes() for name in names})
    assert found[0] == found[1]


LEAVES = [Linear[4, 4], GELU, Tanh, Dropout[0.5], LinearReLU[4, 4], Fused[Tanh, Dropout[0.25]]]


def larger(inner: Any) -> Any:
    """Networks made of networks."""
    return st.one_of(
        st.lists(inner, min_size=1, max_size=3).map(lambda parts: Sequential[tuple(parts)]),
        inner.map(lambda one: Checkpointed[one]),
        inner.map(lambda one: Residual[one]),
        inner.map(lambda one: Repeat[2, one]),
        inner.map(lambda one: Sequential[Parallel[one, Linear[4, 4]], Linear[8, 4]]),
    )


NETS = st.recursive(st.sampled_from(LEAVES), larger, max_leaves=8)


@settings(max_examples=30)
@given(NETS)
def test_any_network_has_the_same_bits_and_keeps_what_it_may(net: Any) -> None:
    whole = Checkpointed[Sequential[net, LinearTanh[4, 4]]]
    check_kept(after(job(whole).step(), "recompute"))
    same_bits(whole)


def test_what_surrounds_a_step_goes_with_it() -> None:
    options: Any = {"clip": ClipNorm(0.1), "ema": 0.9, "accumulate": 3}
    same_bits(Nested, **options)
    for name in ("step", "step.micro"):
        graph = stages(job(Nested, **options).makers[name]().dump)[-1].graph
        assert by_pass(graph, "recompute")


def test_a_gradient_inside_is_computed_again_with_the_rest() -> None:
    critic = Sequential[LinearTanh[4, 5], Linear[5, 1]]
    graph = trace(Checkpointed[InputGradient[critic]], batch=3)
    assert {node.region for node in graph.nodes} == {"net"}
    # What it reads of a module is kept, whatever that asks for.
    graph = trace(InputGradient[Checkpointed[critic]], batch=3)
    assert {node.region for node in graph.nodes if ".g" in node.outputs[0].name} <= {""}


def test_a_fused_type_is_computed_again_as_one_kernel() -> None:
    net = Sequential[Checkpointed[Sequential[Fused[Linear[4, 4], ReLU, Dropout[0.5]], Tanh]], GELU]
    graph = stages(job(net).step())[-1].graph
    copies = by_pass(graph, "recompute")
    assert [n.group for n in copies if n.body] == [f"0.0{RECOMPUTED}"]
    (copy,) = (n for n in copies if n.body)
    assert [part.op.name for part in copy.body if part.launches] == ["linear", "relu"]
    # The gradient of dropout reads nothing but random numbers, and what a region gives is kept.
    assert not any(v.name.startswith("0.1") for node in copies for v in node.outputs)


def arena(net: Any, batch: int, width: int) -> float:
    """The arena of a step in activations, but for the gradients."""
    made = stages(job(net, batch=batch, optimizer=SGD()).step())[-1].graph
    target = CTarget(AVX2)
    plan = make_plan(made, target.choose, target.name)
    (grads,) = (v for n in made.nodes for v in n.outputs if v.name == GRADS)
    return (plan.arena - grads.type.nbytes) / (4 * batch * width)


def test_the_arena_is_what_theory_says() -> None:
    width, batch, count = 32, 1024, 16
    block = Sequential[Linear[width, width], GELU, Linear[width, width], GELU]
    plain = arena(Repeat[count, block], batch, width)
    # Each block has 4 values, which live until the backward pass reads them.
    assert 4 * count <= plain <= 4 * count + 2
    # One for each block, and the 3 inside one; 2 gradients at a time.
    segments = arena(Repeat[count, Checkpointed[block]], batch, width)
    assert segments <= count + 3 + 2
    # The square root: 4 of the outer ones, 4 in one of them.
    outer = Repeat[4, Checkpointed[Repeat[4, Checkpointed[block]]]]
    assert arena(outer, batch, width) <= 4 + 4 + 3 + 2
    # Side by side: 4 values and their gradients, and one branch at a time.
    beside, last = Parallel[(block,) * 4], Linear[4 * width, width]
    assert arena(Sequential[beside, last], batch, width) >= 4 * 4 + 4
    assert arena(Sequential[Checkpointed[beside], last], batch, width) <= 4 + 4 + 3


def test_it_is_near_linear() -> None:
    def before(count: int) -> ComputeGraph:
        net = Repeat[count, Checkpointed[Sequential[LinearReLU[4, 4], GELU]]]
        return after(job(net).gradients(), "vjp")

    assert near_linear(Recompute(), before(100), before(200))


def test_what_is_refused() -> None:
    with pytest.raises(FusionError, match=r"Checkpointed\[Linear\[4, 4\]\] is inside a fused type"):
        Fused[Checkpointed[Linear[4, 4]], ReLU]
    with pytest.raises(CompositionError, match=r"write Checkpointed\[Sequential\[ReLU, Tanh\]\]"):
        Checkpointed[ReLU, Tanh]
    with pytest.raises(CompositionError, match=r"to Checkpointed\[Linear\[4, 6\]\]"):
        Sequential[Linear[3, 4], Checkpointed[Linear[5, 6]]]


def test_names_are_those_without_it() -> None:
    net = Checkpointed[Sequential[Linear[4, 5], Checkpointed[Linear[5, 4]]]]
    assert list(net.parameters()) == ["0.weight", "0.bias", "1.weight", "1.bias"]
    assert net.layout() == bare(net).layout() and str(net.shapes()) == "(*, 4) -> (*, 4)"
    assert np.array_equal(net()[0][1].weight.val, bare(net)()[1].weight.val)
