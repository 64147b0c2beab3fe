"""Normalisations against PyTorch: values, gradients, running statistics, evaluation; what they
refuse; their kernels.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
from needs import needs_compiler, needs_cxx
from norm_twins import ROWS, Twins
from says import says

import noeira
from noeira.nn import (
    MSE,
    SGD,
    Adam,
    BatchNorm1D,
    BatchNorm2D,
    BatchNorm3D,
    ConvRMSNorm,
    Fused,
    GradientPenalty,
    GroupNorm,
    InputGradient,
    InstanceNorm1D,
    InstanceNorm2D,
    LayerNorm,
    LayerNormNoAffine,
    Linear,
    LogSoftmax,
    Losses,
    NameMap,
    ReLU,
    RMSNorm,
    Sequential,
    SiLU,
    Softmax,
    Tanh,
    Wasserstein,
)
from noeira.tracing import trace

TARGETS = [
    "reference",
    pytest.param("cpu", marks=needs_compiler),
    pytest.param("cuda-cpu", marks=needs_cxx),
]
# Layers whose kernels on a GPU are those of others: the slow suite has them there.
ALIKE = ("batch without gain", "instance", "layer without shift", "layer alone")
# A layer, PyTorch's, the shape of a sample, whether channels are its last axis.
LAST = {
    "batch": (BatchNorm2D.of(5, axes="nhwc"), lambda nn: nn.BatchNorm2d(5), (3, 7, 5)),
    "batch without gain": (
        BatchNorm2D.of(5, affine=False, momentum=0.25, eps=1e-3, axes="nhwc"),
        lambda nn: nn.BatchNorm2d(5, momentum=0.25, eps=1e-3, affine=False),
        (3, 2, 5),
    ),
    "instance": (
        InstanceNorm2D.of(5, affine=True, axes="nhwc"),
        lambda nn: nn.InstanceNorm2d(5, affine=True),
        (3, 4, 5),
    ),
    "group": (GroupNorm.of(3, 12, axes="nhwc"), lambda nn: nn.GroupNorm(3, 12), (3, 4, 12)),
}
# The same, channels second.
SECOND = {
    "batch": (BatchNorm2D[5], lambda nn: nn.BatchNorm2d(5), (5, 3, 7)),
    "instance": (InstanceNorm2D[5], lambda nn: nn.InstanceNorm2d(5), (5, 3, 4)),
    "group": (GroupNorm[3, 12], lambda nn: nn.GroupNorm(3, 12), (12, 3, 4)),
    "a group for each": (GroupNorm[4, 4], lambda nn: nn.GroupNorm(4, 4), (4, 3, 5)),
}
ROWWISE = {
    "layer": (LayerNorm[33], lambda nn: nn.LayerNorm(33), (2, 3, 33)),
    "layer without shift": (
        LayerNorm.of(7, eps=1e-3, bias=False),
        lambda nn: nn.LayerNorm(7, eps=1e-3, bias=False),
        (4, 3, 7),
    ),
    "layer alone": (
        LayerNormNoAffine[17],
        lambda nn: nn.LayerNorm(17, elementwise_affine=False),
        (1, 3, 17),
    ),
    "root mean square": (RMSNorm[19], lambda nn: nn.RMSNorm(19, eps=1e-5), (2, 3, 19)),
    "softmax": (Softmax, lambda nn: nn.Softmax(-1), (2, 3, 9)),
    "logarithm": (LogSoftmax, lambda nn: nn.LogSoftmax(-1), (2, 3, 9)),
}


def each_on_every_target(names: Iterable[str]) -> pytest.MarkDecorator:
    """A test for each layer on each target."""
    found = []
    for name in names:
        marks = [needs_cxx, *([pytest.mark.slow] if name in ALIKE else [])]
        found += [
            pytest.param(name, "reference"),
            pytest.param(name, "cpu", marks=needs_compiler),
            pytest.param(name, "cuda-cpu", marks=marks),
        ]
    return pytest.mark.parametrize(("name", "target"), found)


@each_on_every_target(LAST)
def test_channels_last_train_and_evaluate_as_in_pytorch(name: str, target: str) -> None:
    layer, theirs, shape = LAST[name]
    twins = Twins(layer, theirs, shape, target, channels_last=True)
    twins.check_steps()
    twins.check_forward()


@each_on_every_target(SECOND)
def test_channels_second_train_and_evaluate_as_in_pytorch(name: str, target: str) -> None:
    twins = Twins(*SECOND[name], target)
    twins.check_steps()
    twins.check_forward()


@each_on_every_target(ROWWISE)
def test_rows_train_and_evaluate_as_in_pytorch(name: str, target: str) -> None:
    twins = Twins(*ROWWISE[name], target)
    twins.check_steps()
    twins.check_forward()


@pytest.mark.parametrize(
    ("layer", "theirs", "shape"),
    [
        (BatchNorm1D.of(4, axes="ncl"), lambda nn: nn.BatchNorm1d(4), (4, 15)),
        (InstanceNorm1D.of(4, affine=True), lambda nn: nn.InstanceNorm1d(4, affine=True), (4, 15)),
        (BatchNorm3D[4], lambda nn: nn.BatchNorm3d(4), (4, 3, 5, 2)),
        (BatchNorm1D[4], lambda nn: nn.BatchNorm1d(4), (4,)),
    ],
    ids=lambda one: repr(one) if isinstance(one, type) else None,
)
def test_other_ranks_are_as_in_pytorch(layer: Any, theirs: Any, shape: tuple[int, ...]) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    own, random = theirs(torch.nn).double(), np.random.default_rng(0)
    program = noeira.compile(
        layer, loss=MSE, input=shape, batch=ROWS, dtype="f64", target="reference"
    )
    x, y = random.standard_normal((2, ROWS, *shape)) + 1
    loss = ((own(torch.tensor(x)) - torch.tensor(y)) ** 2).mean()
    assert program.gradients(x, y) == pytest.approx(loss.item(), rel=1e-10)
    made = program.forward(x)
    # Gradients change no running statistics: those of PyTorch did move.
    fresh = theirs(torch.nn).double().eval()(torch.tensor(x)).detach().numpy()
    np.testing.assert_allclose(made, fresh, 1e-10, 1e-10)


@pytest.mark.parametrize("target", TARGETS)
def test_frozen_statistics_stay(target: str) -> None:
    layer = BatchNorm2D.of(5, frozen=True, axes="nhwc")
    twins = Twins(layer, LAST["batch"][1], LAST["batch"][2], target, channels_last=True)
    found = {name.rpartition(".")[2]: value for name, value in twins.program.tensors.items()}
    state = twins.theirs.state_dict()
    for name in ("running_mean", "running_var"):
        found[name][...] = twins.random.uniform(0.5, 2, 5)
        state[name] = twins.torch.tensor(found[name].copy())
    twins.theirs.load_state_dict(state)
    before = {name: found[name].copy() for name in ("running_mean", "running_var")}
    twins.check_steps(train=False)
    twins.check_forward()
    for name, value in before.items():
        assert np.array_equal(found[name], value)


def test_the_running_variance_may_be_that_which_is_used() -> None:
    x = np.random.default_rng(0).standard_normal((ROWS, 3))
    for biased, count in ((True, ROWS), (False, ROWS - 1)):
        layer = BatchNorm1D.of(3, biased=biased)
        program = noeira.compile(
            layer, loss=MSE, optimizer=SGD, batch=ROWS, dtype="f64", target="reference"
        )
        program.step(x, x)
        spread = ((x - x.mean(0)) ** 2).sum(0) / count
        np.testing.assert_allclose(program.tensors["running_var"], 0.9 + 0.1 * spread, 1e-12)


@pytest.mark.parametrize("target", TARGETS[1:])
@pytest.mark.parametrize("name", ["batch", "group"])
def test_a_large_mean_loses_no_digits(name: str, target: str) -> None:
    layer, _, _ = LAST[name]
    random = np.random.default_rng(0)
    # Many rows, in chunks; a few units of the last place are what the numbers themselves have lost.
    x = (1e4 + random.standard_normal((ROWS, 40, 30, layer.C))).astype(np.float32)
    program = noeira.compile(
        layer, input=x.shape[1:], loss=MSE, optimizer=SGD(lr=0.0), batch=ROWS, target=target
    )
    wide = x.astype(np.float64)
    if name == "group":
        grouped = wide.reshape(ROWS, -1, 3, 4)
        mean, spread = (f(axis=(1, 3), keepdims=True) for f in (grouped.mean, grouped.var))
        wanted = ((grouped - mean) / np.sqrt(spread + 1e-5)).reshape(x.shape)
        np.testing.assert_allclose(program.forward(x), wanted, rtol=1e-3, atol=2e-3)
        return
    program.step(x, x)
    mean, variance = wide.mean((0, 1, 2)), wide.reshape(-1, layer.C).var(0, ddof=1)
    np.testing.assert_allclose(program.tensors["running_mean"], 0.1 * mean, rtol=1e-7)
    np.testing.assert_allclose(program.tensors["running_var"], 0.9 + 0.1 * variance, rtol=1e-5)


@pytest.mark.parametrize("target", TARGETS[1:])
def test_rows_of_a_large_mean_lose_no_digits(target: str) -> None:
    x = (1e4 + np.random.default_rng(0).standard_normal((ROWS, 1000))).astype(np.float32)
    made = noeira.compile(LayerNormNoAffine[1000], target=target).forward(x)
    wide = x.astype(np.float64)
    apart = wide - wide.mean(-1, keepdims=True)
    wanted = apart / np.sqrt((apart**2).mean(-1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(made, wanted, rtol=1e-3, atol=2e-3)


class FusedNet(
    Sequential[
        Fused[Linear[6, 12], BatchNorm1D[12], ReLU],
        Fused[LayerNorm[12], SiLU],
        Fused[BatchNorm1D[12], ReLU],
        BatchNorm1D[12],
        Linear[12, 3],
    ]
):
    """Norms behind a product, with an activation, and alone."""


class PlainNet(
    Sequential[
        Sequential[Linear[6, 12], BatchNorm1D[12], ReLU],
        Sequential[LayerNorm[12], SiLU],
        Sequential[BatchNorm1D[12], ReLU],
        BatchNorm1D[12],
        Linear[12, 3],
    ]
):
    """The same, but for norms of batches nothing fused."""


@pytest.mark.parametrize("target", TARGETS)
def test_fused_norms_give_the_bits_of_their_parts(
    target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = np.random.default_rng(0)
    x, y = (random.standard_normal((30, n)).astype(np.float32) for n in (6, 3))
    found = list[list[bytes]]()
    for threads in ("1", "2", "3") if target == "cpu" else ("1",):
        monkeypatch.setenv("NOEIRA_THREADS", threads)
        for net in (FusedNet, PlainNet):
            program = noeira.compile(
                net, loss=MSE, optimizer=Adam(lr=0.1), batch=30, seed=1, target=target
            )
            losses = [program.step(x, y) for _ in range(3)]
            arrays = [np.array(losses), program.forward(x)]
            arrays += [program.store.arrays[name] for name in ("params", "buffers", "gradients")]
            found.append([array.tobytes() for array in arrays])
    assert all(other == found[0] for other in found[1:])


def test_a_norm_of_a_batch_is_one_call_and_so_is_its_gradient() -> None:
    launches = noeira.explain(FusedNet, loss=MSE, optimizer=SGD, batch=30).launches
    assert [launch.stages for launch in launches if "channel" in launch.op] == [
        ("gemm", "channel_statistics", "map", "map_2"),
        ("channel_statistics", "map", "map_2"),
        ("channel_statistics", "map", "map_2"),
        ("channel_sums", "map", "map_2"),
        ("channel_sums", "map", "map_2"),
        ("channel_sums", "map", "column"),
    ]
    (norm,) = (launch for launch in launches if "layer_norm_grad" in launch.op)
    assert norm.op == "fused[silu.d0, layer_norm_grad]"


@pytest.mark.parametrize("norm", [LayerNorm[9], RMSNorm[9]], ids=repr)
def test_penalties_of_gradients_go_through_norms_of_rows(norm: Any) -> None:
    net = InputGradient[Sequential[Linear[5, 9], norm, Tanh, Linear[9, 1]]]
    program = noeira.compile(
        net, loss=Losses[Wasserstein, GradientPenalty], batch=4, dtype="f64", target="reference"
    )
    random = np.random.default_rng(0)
    x, sides = random.standard_normal((4, 5)), np.array([[1.0], [-1.0], [1.0], [-1.0]])
    program.gradients(x, sides)
    gradient, params = program.store.arrays["gradients"].copy(), program.store.arrays["params"]
    before, direction = params.copy(), random.standard_normal(params.size) * (gradient != 0)
    losses = []
    for step in (1e-5, -1e-5):
        params[...] = before + step * direction
        losses.append(float(program.gradients(x, sides)))
    slope = (losses[0] - losses[1]) / 2e-5
    assert slope == pytest.approx(float(gradient @ direction), rel=1e-6)


def test_names_are_those_of_pytorch() -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    nn = torch.nn
    theirs = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.LayerNorm(4), nn.RMSNorm(4))
    net = Sequential[Linear[3, 4], BatchNorm1D[4], LayerNorm[4], RMSNorm[4]]
    names = NameMap.of(net)
    program = noeira.compile(net, target="reference", batch=2)
    program.tensors.load({k: v.numpy() for k, v in theirs.state_dict().items()}, names=names)
    exported = names.exported(dict(program.tensors))
    assert {*exported, "1.num_batches_tracked"} == {*theirs.state_dict()}


def test_places_of_channels_over_an_image() -> None:
    x = np.random.default_rng(0).standard_normal((2, 5, 3, 4))
    wanted = x / np.sqrt((x**2).mean(1, keepdims=True) + 1e-5)
    for target in ("reference", "cpu"):
        program = noeira.compile(ConvRMSNorm[5], input=(5, 3, 4), dtype="f64", target=target)
        np.testing.assert_allclose(program.forward(x), wanted, 1e-12)
    last = noeira.compile(
        ConvRMSNorm.of(5, axes="nhwc"), input=(3, 4, 5), dtype="f64", target="reference"
    )
    np.testing.assert_allclose(np.moveaxis(last.forward(np.moveaxis(x, 1, -1)), -1, 1), wanted)


def test_what_cannot_be_normalised_is_refused() -> None:
    says(
        lambda: trace(BatchNorm1D[8], batch=1),
        "BatchNorm1D[8] takes statistics of a batch in training, and is given one value for each "
        "channel, f32[1, 8]: take a batch of at least 2",
    )
    assert trace(BatchNorm1D[8], batch=1, phase="eval").outputs
    says(
        lambda: trace(InstanceNorm2D[8], batch=4, input=(8, 1, 1)),
        "InstanceNorm2D[8] takes statistics of the places of each channel, and f32[4, 8, 1, 1] has "
        "one: what it gives is 0",
    )
    says(
        lambda: GroupNorm[3, 8],
        "GroupNorm[3, 8]: 8 channels are not 3 groups of as many each",
    )
    says(
        lambda: BatchNorm2D.of(8, eps=0.0),
        "BatchNorm2D.of(8, eps=0.0): eps must be a number greater than 0, not 0.0",
    )
