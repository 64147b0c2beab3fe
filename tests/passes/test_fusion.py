"""Fusion is a type: what a type asked for is joined, nothing else, and it can be opened again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from types import ModuleType
from typing import Any

import pytest
from graphs import JOBS, STAGES, compiled, emit, f32, graphs
from hypothesis import given, settings
from stateful_layers import RunningMean
from timing import near_linear

from noeira.errors import FusionError, VerifyError
from noeira.ir.builder import Builder
from noeira.ir.forms import refusal
from noeira.ir.graph import ADJOINT, ComputeGraph, canonical
from noeira.ir.text.dump import Dump
from noeira.ir.verify import verify
from noeira.job import job_of
from noeira.nn import (
    GELU,
    MSE,
    SGD,
    Adam,
    CrossEntropy,
    Fused,
    Linear,
    LinearGELU,
    LinearReLU,
    LinearTanh,
    Parallel,
    ReLU,
    Repeat,
    Residual,
    Scale,
    Sequential,
    Tanh,
)
from noeira.passes.dce import DeadCodeElimination
from noeira.passes.fuse import Fuse, inline
from noeira.passes.pipeline import Pipeline, resume

FUSED = {name: dump for name, dump in STAGES.items() if dump.done[-1] == "fuse"}
BEFORE = {name: STAGES[name.removesuffix("fuse") + "dce"] for name in FUSED}


def without_groups(graph: ComputeGraph) -> ComputeGraph:
    """The graph as if no fused type had asked for anything."""
    nodes = tuple(replace(node, group="") for node in graph.nodes)
    return replace(graph, groups=(), nodes=nodes)


def keyed(graph: ComputeGraph) -> Counter[Any]:
    """The nodes of a graph, whatever their order."""
    return Counter(graph.nodes)


def read_outside(graph: ComputeGraph) -> set[str]:
    """Every value that some node of the graph, or its end, reads."""
    return {v.name for n in graph.nodes for v in n.inputs} | {v.name for v in graph.results()}


def check_fused(before: ComputeGraph, after: ComputeGraph) -> None:
    """What must hold of every fused graph."""
    verify(after)
    assert keyed(inline(after)) == keyed(before)
    assert replace(inline(after), nodes=()) == replace(before, nodes=())
    outside = read_outside(after)
    for node in after.nodes:
        assert {part.group for part in node.parts} == {node.group}
        if not node.body:
            continue
        assert len(node.body) > 1
        assert all(part.op.launches and not part.body for part in node.body)
        assert node.group and after.group_of(node.group) in after.groups
        assert refusal(node.body) == ""
        made = [v for part in node.body for v in part.outputs]
        assert node.outputs == tuple(v for v in made if v.name in outside)
        assert set(node.inputs) == {v for part in node.body for v in part.inputs} - set(made)


@pytest.mark.parametrize("name", FUSED)
def test_a_fused_graph_opened_is_the_graph_before(name: str):
    check_fused(BEFORE[name].graph, FUSED[name].graph)


@pytest.mark.parametrize("name", FUSED)
def test_a_forward_group_is_exactly_one_call(name: str):
    graph = FUSED[name].graph
    calls = Counter(node.group for node in graph.launching())
    used = {node.group for node in BEFORE[name].graph.nodes}
    for group in graph.groups:
        assert calls[group.path] == (group.path in used)


def twin(net: Any) -> Any:
    """The type with every fused type in it written as a Sequential."""
    if issubclass(net, Fused):
        return Sequential[tuple(net.parts())]
    if hasattr(net, "parts"):
        parts = tuple(map(twin, net.parts()))
        if net.family in (Repeat, Residual):
            return net.family.make((*net.values[:-1], parts[0]))
        return net.family.make((parts, *net.values[1:]))
    return net


@pytest.mark.parametrize(
    "name", ["mlp", "residual", "repeat", "parallel", "f64", "no bias", "residual root"]
)
@pytest.mark.parametrize("entry", ["forward", "step"])
def test_the_unfused_twin_is_the_same_graph_without_groups_and_names(name: str, entry: str):
    job = JOBS[name]
    plain = replace(job, net=twin(job.net))
    assert plain.forward().graph.groups == ()
    fused, unfused = (getattr(j, entry)().graph for j in (job, plain))
    assert anonymous(fused) == anonymous(unfused)
    opened, never = (inline(compiled(getattr(j, entry)())) for j in (job, plain))
    assert same_steps(opened, never)


def anonymous(graph: ComputeGraph) -> ComputeGraph:
    """The graph without groups, names and the order of members in layouts' names."""
    layouts = tuple(
        replace(layout, members=tuple(replace(m, name="") for m in layout.members))
        for layout in graph.layouts
    )
    return canonical(replace(graph, layouts=layouts), groups=False)


def same_steps(a: ComputeGraph, b: ComputeGraph) -> bool:
    """Whether two graphs do the same, node for node, whatever the names and the order."""
    return Counter(value_trees(a)) == Counter(value_trees(b))


def value_trees(graph: ComputeGraph) -> list[int]:
    """For each node a number for the whole expression that it computes."""
    known: dict[str, int] = {v.name: hash((i, v.type)) for i, v in enumerate(graph.given())}
    found = list[int]()
    for node in graph.nodes:
        tree = hash((node.op.name, node.attrs, tuple(known[v.name] for v in node.inputs)))
        known |= {v.name: hash((tree, i)) for i, v in enumerate(node.outputs)}
        found.append(tree)
    return found


def test_every_node_of_an_adjoint_group_is_covered_in_order():
    graph = FUSED["fused step fuse"].graph
    adjoint = [n for n in graph.nodes if n.group.endswith(ADJOINT)]
    assert [[part.op.name for part in node.parts] for node in adjoint] == [
        ["clamp.d0", "scale.d0", "tanh.d0", "sum"],
        ["matmul"],
    ]


def test_a_value_of_the_backward_pass_is_found_not_declared():
    net = Sequential[LinearGELU[4, 3], LinearReLU[3, 2]]
    forward = compiled(job_of(net, batch=2, loss=MSE).forward())
    step = compiled(job_of(net, batch=2, loss=MSE, optimizer=Adam()).step())
    outputs = {n.group: [v.name for v in n.outputs] for n in forward.nodes if n.body}
    assert outputs == {"0": ["0.gelu"], "1": ["1.relu"]}
    # gelu's slope needs its operand, relu's only the result
    outputs = {
        n.group: [v.name for v in n.outputs] for n in step.nodes if n.body and n.group in "01"
    }
    assert outputs == {"0": ["0.linear", "0.gelu"], "1": ["1.relu"]}


STAMPS = ("", "0", "1", "0~", "1~", "0^")


@settings(max_examples=300)
@given(graphs(nodes=16, stamps=STAMPS))
def test_only_what_has_one_stamp_is_ever_joined(graph: ComputeGraph):
    live = DeadCodeElimination()(graph)
    try:
        after = Fuse()(live)
    except FusionError as error:
        assert "cannot be one kernel" in str(error)
        return
    check_fused(live, after)
    Fuse().check(live, after)
    unstamped = [n for n in live.nodes if not n.group]
    assert all(any(n is m for m in after.nodes) for n in unstamped)


@settings(max_examples=300)
@given(graphs(nodes=16, stamps=("", "0~", "1~", "2^")))
def test_covered_groups_are_never_refused(graph: ComputeGraph):
    live = DeadCodeElimination()(graph)
    check_fused(live, Fuse()(live))


@settings(max_examples=100)
@given(graphs())
def test_without_groups_nothing_is_joined(graph: ComputeGraph):
    assert Fuse()(graph) == graph


def chain(*stamps: str) -> tuple[Builder, list[Any]]:
    """relu after relu, each with a stamp, and their results."""
    builder = Builder("chain")
    for path in dict.fromkeys(stamp.rstrip("~^") for stamp in stamps if stamp):
        builder.group(path, f"Fused[{path}]")
    values = [builder.input("x", f32(3, 4))]
    for stamp in stamps:
        values.append(emit(builder, "relu", values[-1], group=stamp))
    return builder, values


def test_a_value_that_leaves_and_comes_back_is_refused():
    builder, values = chain("0", "")
    out = emit(builder, "add", values[1], values[2], group="0")
    with pytest.raises(
        FusionError, match=r"Fused\[0\] at 0 cannot be one kernel: a value leaves it and comes back"
    ):
        Fuse()(builder.done([out]))


BEHIND = """
from noeira.ir.op import Op
from noeira.ir.storage import Inside
from noeira.ir.types import TensorType

class Behind(Op):
    'x without its first row, where it lies'

    name, operands = "behind", ("x",)

    def infer(self, attrs, x):
        return (TensorType(x.dtype, (x.shape[0] - 1, *x.shape[1:])),)

    def reference(self, attrs, x):
        return (x[1:],)

    def storage(self, attrs, operands):
        return Inside(0, operands[0].size // operands[0].shape[0])
"""


def test_parts_that_meet_in_a_view_of_a_part_are_refused_for_it(
    define: Callable[[str], ModuleType],
):
    define(BEHIND)
    builder, values = chain("0")
    view = emit(builder, "behind", values[-1], group="0")
    out = emit(builder, "reshape", view, shape=(8,), group="0")
    graph = builder.done([emit(builder, "tanh", out, group="0")])
    with pytest.raises(FusionError, match="behind views a part of what it reads"):
        Fuse()(graph)
    adjoint = replace(graph, nodes=tuple(replace(n, group=f"0{ADJOINT}") for n in graph.nodes))
    check_fused(adjoint, Fuse()(adjoint))


def test_a_value_that_leaves_an_adjoint_group_and_comes_back_opens_a_kernel():
    builder, values = chain("0~", "0~", "")
    out = emit(builder, "add", values[2], values[3], group="0~")
    after = Fuse()(builder.done([out]))
    assert [len(n.parts) for n in after.nodes] == [2, 1, 1]


def crossing(*stamps: str) -> ComputeGraph:
    """Two kernels, each fine by itself, of which each waits for a value of the other."""
    builder = Builder("crossing")
    a, b, c, d = stamps
    for path in dict.fromkeys(stamp.rstrip("~") for stamp in stamps):
        builder.group(path, f"Fused[{path}]")
    x = builder.input("x", f32(3))
    p, q = (emit(builder, "relu", x, group=s) for s in (a, b))
    r, t = emit(builder, "add", p, q, group=c), emit(builder, "subtract", q, p, group=d)
    return builder.done([r, t])


def test_kernels_that_wait_for_each_other_are_refused():
    with pytest.raises(FusionError) as caught:
        Fuse()(crossing("0", "1", "0", "1"))
    assert str(caught.value) == (
        "Fused[0] at 0 and Fused[1] at 1 cannot be one kernel each: "
        "they wait for each other's values"
    )


@pytest.mark.parametrize(
    ("stamps", "sizes"),
    [
        (("0~", "1~", "0~", "1~"), {"0~": [2], "1~": [1, 1]}),
        (("0~", "1", "0~", "1"), {"0~": [1, 1], "1": [2]}),
    ],
)
def test_of_kernels_that_wait_for_each_other_a_covered_one_is_opened(stamps: Any, sizes: Any):
    before = crossing(*stamps)
    after = Fuse()(before)
    check_fused(before, after)
    found: dict[str, list[int]] = {}
    for node in after.nodes:
        found.setdefault(node.group, []).append(len(node.parts))
    assert found == sizes


def test_what_nothing_reads_is_not_fused():
    builder, values = chain("0", "0")
    graph = builder.done([emit(builder, "tanh", values[0])])
    with pytest.raises(
        VerifyError, match=r"nothing reads what Fused\[0\] at 0 gives: run dce before"
    ):
        Fuse()(graph)


def test_a_refused_group_names_its_type_and_place():
    builder, values = chain("", "0.1")
    out = emit(builder, "concat", values[-1], values[-1], group="0.1")
    with pytest.raises(
        FusionError,
        match=r"Fused\[0.1\] at 0.1 cannot be one kernel: concat is a kernel of its own",
    ):
        Fuse()(builder.done([out]))


LAUNCHES = [
    Linear[4, 3],
    Sequential[Linear[4, 8], ReLU, Linear[8, 3]],
    Sequential[LinearReLU[4, 8], Linear[8, 3]],
    Sequential[LinearGELU[4, 8], LinearGELU[8, 8], Linear[8, 3]],
    Fused[Linear[4, 3], Tanh, Scale.of(multiplier=2.0)],
    Sequential[Tanh, Linear[4, 3]],
    Sequential[Linear[4, 4], Residual[LinearTanh[4, 4]], Linear[4, 3]],
    Sequential[Linear[4, 4], Residual[Sequential[LinearTanh[4, 4], Linear[4, 4]]], Linear[4, 3]],
    Sequential[Repeat[4, LinearReLU[4, 4]], Linear[4, 3]],
    Sequential[Parallel[LinearReLU[4, 4], Linear[4, 4]], Fused[Tanh, GELU], Linear[8, 3]],
]


def launches(net: Any) -> str:
    """Calls of one forward pass and of one training step, and the same without fused types."""
    row = list[int]()
    for job in (
        job_of(net, batch=2, loss=CrossEntropy, optimizer=Adam()),
        job_of(twin(net), batch=2, loss=CrossEntropy, optimizer=Adam()),
    ):
        row += [len(compiled(dump).launching()) for dump in (job.forward(), job.step())]
    return f"{row[0]:3} of {row[2]:2}  {row[1]:3} of {row[3]:2}   {net!r}"


def test_launches(golden: Callable[..., None]):
    golden("\n".join(["forward      step", *map(launches, LAUNCHES)]))


def test_fusing_a_resumed_graph_is_fusing_the_graph():
    for name, dump in BEFORE.items():
        again = Pipeline((Fuse(),))(Dump(dump.graph))
        assert again.graph == FUSED[name].graph
        assert without_groups(inline(again.graph)).groups == ()


@pytest.mark.parametrize(
    ("first", "repeated", "count"),
    [(ReLU, (RunningMean[6], ReLU), 20), (Linear[6, 6], (ReLU, GELU), 40)],
)
def test_large_fused_types_are_near_linear_too(first: Any, repeated: Any, count: int):
    small, twice = (
        job_of(
            Sequential[Linear[4, 6], Fused[(first, *(repeated * times))], Linear[6, 3]],
            batch=5,
            loss=MSE,
            optimizer=SGD(lr=0.1),
        ).step()
        for times in (count, 2 * count)
    )
    assert near_linear(lambda dump: resume(dump)(dump), small, twice)
