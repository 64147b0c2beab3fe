"""What surrounds the optimizer in a step: what each pass adds, how many launches there are, what is
refused.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest
from graphs import stages

from noeira.errors import VerifyError
from noeira.ir.graph import ComputeGraph
from noeira.ir.states import GRADS
from noeira.job import job_of
from noeira.nn import (
    AdamW,
    ClipAdaptive,
    ClipNorm,
    ClipValue,
    CrossEntropy,
    Group,
    Linear,
    LinearReLU,
    Repeat,
    Sequential,
    WarmupCosine,
)
from noeira.passes.clip import Clip
from noeira.passes.update import ApplyOptimizer
from noeira.passes.vjp import Vjp

Small = Sequential[LinearReLU[3, 4], Linear[4, 2]]
Deep = Sequential[Repeat[20, LinearReLU[4, 4]], Linear[4, 2]]
EVERYTHING = {
    "loss": CrossEntropy,
    "optimizer": AdamW,
    "schedule": WarmupCosine(epochs=5, warmup=2),
    "clip": ClipNorm(1.0),
    "groups": {"0.*": Group(frozen=True), "*.bias": Group(lr_factor=0.5)},
    "ema": 0.99,
    "batch": 4,
}


def step_of(net: type, **options: object) -> ComputeGraph:
    """The graph of a step after all passes."""
    return stages(job_of(net, **{**EVERYTHING, **options}).step())[-1].graph


@pytest.mark.parametrize("name", ["step", "step.micro"])
def test_what_each_pass_adds(name: str, golden: Callable[..., None]) -> None:
    job = job_of(Small, **EVERYTHING, accumulate=2)
    for before, after in pairwise(stages(job.makers[name]().dump)):
        done = after.done[-1].partition("{")[0]
        if done in ("accumulate", "clip", "anneal", "update", "ema"):
            old = str(before.graph).splitlines()
            added = [line for line in str(after.graph).splitlines() if line not in old]
            golden("\n".join([after.done[-1], *added]), done)


@pytest.mark.parametrize("net", [Small, Deep], ids=["2 layers", "21 layers"])
@pytest.mark.parametrize("clip", [ClipNorm(1.0), ClipValue(1.0), ClipAdaptive()])
def test_an_update_is_six_launches_at_most(net: type, clip: object) -> None:
    graph = step_of(net, clip=clip)
    nodes = [node for node in graph.nodes if node.launches]
    packed = max(i for i, n in enumerate(graph.nodes) if n.outputs[0].name == GRADS)
    after = [n for n in nodes if graph.nodes.index(n) > packed and n.origin.by != "trace"]
    assert len(after) == 6


def test_the_factor_of_each_tensor_is_for_those_that_are_trained() -> None:
    graph = step_of(Small, clip=ClipAdaptive())
    clip = next(n for n in graph.nodes if n.op.name == "adaptive_clip")
    adam = next(n for n in graph.nodes if n.op.name == "adam")
    spans = [(span.start, span.stop) for span in clip.attrs.ranges]
    # 1.weight and 1.bias; those of layer 0 are frozen.
    assert spans == [(32, 64), (96, 128)]
    assert [(span.start, span.stop) for span in adam.attrs.ranges] == spans
    assert clip.outputs[0].type.shape == (2,) and adam.inputs[-1] == clip.outputs[0]


def test_passes_say_what_they_cannot_do() -> None:
    graph = job_of(Small, **EVERYTHING).graph("step", job_of(Small, **EVERYTHING).options, "train")
    grads = Vjp()(graph)
    with pytest.raises(VerifyError, match="clip: relu is no op that clips gradients"):
        Clip("relu")(grads)
    frozen = (("*", (("frozen", True),)),)
    with pytest.raises(VerifyError, match="update: every parameter is frozen"):
        ApplyOptimizer(groups=frozen)(grads)
    with pytest.raises(VerifyError, match="clip: no node gives %grads"):
        Clip()(graph)
