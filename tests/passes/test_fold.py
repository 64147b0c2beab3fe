"""The pass `fold`: what it folds and what it leaves, that it can be undone, and what becomes of
numbers; and `prepare`, which takes what it made out of each call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import pytest
from pass_jobs import run

from noeira.errors import OptionError, VerifyError
from noeira.ir.graph import ComputeGraph
from noeira.ir.interpret import interpret
from noeira.ir.verify import verify
from noeira.job import job_of
from noeira.nn import (
    MSE,
    BatchNorm1D,
    BatchNorm2D,
    BatchNorm3D,
    Conv1D,
    Conv2D,
    Conv2DTranspose,
    Conv3D,
    Flatten,
    Fused,
    GroupNorm,
    Linear,
    Module,
    ReLU,
    Reshape,
    Residual,
    Sequential,
    Tanh,
)
from noeira.passes.dce import DeadCodeElimination
from noeira.passes.fold import Fold
from noeira.passes.fuse import Fuse
from noeira.passes.order import Order
from noeira.passes.prepare import Prepare

Tiny = Sequential[Conv2D[2, 3, 3], BatchNorm2D[3], ReLU]
Images = Sequential[
    Conv2D.of(3, 8, 3, padding=1, bias=False),
    Fused[BatchNorm2D[8], ReLU],
    Residual[Fused[Conv2D.of(8, 8, 3, padding=1), BatchNorm2D[8], ReLU]],
    Conv2D.of(8, 4, 3, groups=2, axes="nchw"),
    BatchNorm2D.of(4, affine=False),
    Flatten,
    Linear[16, 5],
    BatchNorm1D[5],
]
# Each with the number of its normalisations that are folded.
CASES: dict[str, tuple[type[Module], tuple[int, ...], int]] = {
    "images": (Images, (3, 4, 4), 4),
    "rows": (Sequential[Linear.of(4, 6, bias=False), BatchNorm1D[6], Tanh], (4,), 1),
    "tokens": (Sequential[Linear[4, 6], BatchNorm1D.of(6, axes="nlc")], (5, 4), 1),
    "sequences": (Sequential[Conv1D[3, 5, 2], BatchNorm1D.of(5, axes="ncl")], (3, 7), 1),
    "volumes": (Sequential[Conv3D[2, 3, 2], BatchNorm3D[3]], (2, 3, 4, 3), 1),
    "channels last": (
        Sequential[Conv2D.of(3, 4, 2, axes="nhwc"), BatchNorm2D.of(4, axes="nhwc")],
        (4, 5, 3),
        1,
    ),
    "transposed": (Sequential[Conv2DTranspose[3, 5, 2], BatchNorm2D[5]], (3, 4, 3), 1),
    "transposed, in groups": (
        Sequential[Conv2DTranspose.of(4, 6, 2, groups=2, bias=False), BatchNorm2D[6]],
        (4, 4, 3),
        1,
    ),
    "one channel": (Sequential[Conv2D[2, 1, 2], BatchNorm2D[1]], (2, 4, 3), 1),
    "behind a view": (
        Sequential[Conv2D[2, 3, 2], Reshape[3, 6, 1], Fused[BatchNorm2D[3], ReLU]],
        (2, 4, 3),
        1,
    ),
    "twice": (Sequential[Conv2D[2, 3, 2], BatchNorm2D[3], BatchNorm2D[3]], (2, 4, 3), 1),
    "after an activation": (Sequential[Conv2D[2, 3, 2], ReLU, BatchNorm2D[3]], (2, 4, 3), 0),
    "of another axis": (
        Sequential[Linear[4, 4], Reshape[4, 1, 1], BatchNorm2D[4], Flatten, BatchNorm1D[4]],
        (4,),
        1,
    ),
    "by statistics of a sample": (Sequential[Conv2D[2, 4, 2], GroupNorm[2, 4]], (2, 4, 3), 0),
}


def forward(net: type[Module], shape: tuple[int, ...], dtype: Literal["f32", "f64"] = "f32") -> Any:
    """The graph of `forward` before any pass."""
    return job_of(net, input=shape, batch=2, dtype=dtype).forward().graph


def normalized(graph: ComputeGraph) -> int:
    """How many normalisations of activations there are."""
    return sum(n.op.name == "normalize" and n.origin.by == "trace" for n in graph.nodes)


def given(graph: ComputeGraph) -> dict[str, np.ndarray]:
    """Inputs, parameters and buffers; the latter, variances among them, from 0.5 to 2."""
    random, found = np.random.default_rng(1), {}
    for value in (*(i.value for i in graph.inputs), *(s.value for s in graph.states)):
        drawn = random.standard_normal(value.type.shape)
        if value.name == "buffers":
            drawn = random.uniform(0.5, 2, value.type.shape)
        found[value.name] = drawn.astype({"f32": np.float32, "f64": np.float64}[value.type.dtype])
    return found


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_what_is_folded_gives_the_same_and_is_undone(name: str, dtype: Any):
    net, shape, count = CASES[name]
    before = forward(net, shape, dtype)
    after = run(before, Fold())
    assert normalized(before) - normalized(after) == count
    assert (after is before) == (count == 0)
    one, other = (
        interpret(run(g, Order(), DeadCodeElimination(), Fuse()), given(before))[g.outputs[0].name]
        for g in (before, after)
    )
    most = {"f32": 1e-5, "f64": 1e-12}[dtype]
    assert np.abs(one - other).max() <= most * np.abs(one).max()


def test_folding_a_tiny_network(golden: Callable[..., None]):
    job = job_of(Tiny, input=(2, 4, 4), batch=1, fold=True)
    for entry in ("forward", "forward.fold"):
        dump = job.makers[entry]().dump
        folded = run(dump.graph, Fold())
        prepared = run(folded, Prepare(makes=entry != "forward"))
        texts = [str(one).split("graph ")[1] for one in (folded, prepared)]
        if entry == "forward":
            golden(texts[0], "fold")
        golden(texts[1], entry)


def test_of_a_fused_type_the_rest_goes_on_with_the_convolution():
    graph = run(
        forward(Images, (3, 4, 4)), Fold(), Prepare(), Order(), DeadCodeElimination(), Fuse()
    )
    bodies = [[part.op.name for part in node.body] for node in graph.nodes if node.body]
    assert bodies == [["convolution", "relu"], ["convolution", "relu"]]


def test_what_others_read_stays():
    graph = forward(Sequential[Conv2D[2, 3, 2], Residual[BatchNorm2D[3]]], (2, 4, 4))
    assert Fold()(graph) is graph


def test_in_training_statistics_are_of_the_batch():
    graph = job_of(Tiny, input=(2, 4, 4), batch=2, loss=MSE).gradients().graph
    assert Fold()(graph) is graph


def test_nothing_to_fold_is_refused():
    with pytest.raises(OptionError, match=r"fold=True has nothing to fold in Sequential\[Linear"):
        job_of(Sequential[Linear[3, 4], ReLU], fold=True).entries()
    with pytest.raises(OptionError, match="fold is True or False, not 1"):
        job_of(Tiny, input=(2, 4, 4), fold=1)  # type: ignore[arg-type]


def test_what_prepare_leaves_out_follows_from_parameters_alone():
    graph = run(forward(Tiny, (2, 4, 4)), Fold())
    after = Prepare()(graph)
    Prepare().check(graph, verify(after, after="prepare"))
    with pytest.raises(VerifyError, match="left out a node that reads what callers give"):
        Prepare().check(graph, Prepare(makes=True)(graph))
    plain = forward(Tiny, (2, 4, 4))
    assert Prepare()(plain) is plain
