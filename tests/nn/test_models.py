"""Models: their shapes and sizes, a step of training on every target beside PyTorch's."""

from __future__ import annotations

import pickle
import re
from typing import Any

import numpy as np
import pytest
from needs import needs_compiler, needs_cxx
from torch_resnets import torch_resnet

import noeira
from noeira.errors import CompositionError
from noeira.nn import (
    SGD,
    CifarBackbone,
    CifarCNN,
    CifarFeatureClassifier,
    Conv2D,
    Conv2DBatchNorm,
    Conv2DBatchNormReLU,
    Conv2DReLU,
    CrossEntropy,
    Fused,
    KaimingNormal,
    Module,
    ReLU,
    ResBlock,
    ResBlockDownsample,
    ResNet18,
    ResNet18Backbone,
    ResNet18Layer3Backbone,
    ResNet20,
    ResNet32,
    ResNet34,
    ResNet44,
    ResNet56,
    Sequential,
)
from noeira.report.vocabulary import vocabulary

SMALL = ResNet18.of(10, stem="cifar")
# A network, what it takes and gives, and the number of its parameters.
MODELS: list[tuple[Any, tuple[int, ...], tuple[int, ...], int]] = [
    (ResNet18[1000], (3, 224, 224), (1000,), 11_689_512),
    (ResNet34[1000], (3, 224, 224), (1000,), 21_797_672),
    (SMALL, (3, 32, 32), (10,), 11_173_962),
    (ResNet18.of(10, "cifar", 1), (1, 28, 28), (10,), 11_172_810),
    (ResNet18Backbone, (3, 224, 200), (512, 7, 7), 11_176_512),
    (ResNet18Backbone.of(stem="cifar"), (3, 32, 32), (512, 4, 4), 11_168_832),
    (ResNet18Layer3Backbone, (3, 224, 224), (256, 14, 14), 2_782_784),
    (ResNet20, (3, 32, 32), (10,), 269_722),
    (ResNet32, (3, 32, 32), (10,), 464_154),
    (ResNet44[100], (3, 32, 32), (100,), 664_436),
    (ResNet56, (3, 32, 32), (10,), 853_018),
    (CifarBackbone, (3, 33, 32), (64, 9, 8), 269_072),
    (CifarFeatureClassifier[100], (3, 32, 32), (100,), 275_572),
    (CifarCNN, (3, 32, 32), (10,), 550_570),
]


@pytest.mark.parametrize(("net", "takes", "gives", "count"), MODELS)
def test_shapes_and_numbers_of_parameters(
    net: Any, takes: tuple[int, ...], gives: tuple[int, ...], count: int
) -> None:
    assert net.gives(takes) == gives
    assert sum(info.size for info in net.parameters().values()) == count
    assert pickle.loads(pickle.dumps(net)) is net
    assert eval(repr(net)) is net


def test_types_that_are_the_same():
    assert ResNet20[10] is ResNet20.of(classes=10) is ResNet20
    assert repr(SMALL) == "ResNet18.of(10, stem='cifar')"
    assert ResNet18[10] is ResNet18[10, "imagenet", 3]
    assert Conv2DReLU[3, 8, 3] is Fused[Conv2D[3, 8, 3], ReLU]
    assert repr(Conv2DBatchNormReLU.of(3, 8, 3, padding=1)).endswith("(3, 8, 3, padding=1)")
    assert list(Conv2DBatchNorm[3, 8, 1].parameters()) == ["0.weight", "1.gamma", "1.beta"]


def test_models_are_listed_as_such():
    names = {word.name for word in vocabulary() if word.kind == "models"}
    assert names == {net.family.__name__ for net, *_ in MODELS}


MISTAKES = [
    ("ResNet18", "ResNet18 needs its parameters: write ResNet18[CLASSES] or"),
    ("ResNet18.of(10, stem='large')", "stem must be 'imagenet' or 'cifar', not 'large'"),
    ("ResNet20.gives((1, 32, 32))", "ResNet20 takes (3, H, W), not (1, 32, 32)"),
    ("CifarCNN.gives((3, 28, 28))", "CifarCNN, given (3, 28, 28),"),
    ("ResBlock.gives((3, 4, 4))", "ResBlock needs its parameters"),
    (
        "ResBlockDownsample.of(4, 7, shortcut='pad')",
        "3 channels of zeros cannot be as many before as after 4",
    ),
    (
        "ResBlockDownsample.of(8, 4, shortcut='pad')",
        "-4 channels of zeros cannot be as many before as after 8",
    ),
]


@pytest.mark.parametrize(("written", "message"), MISTAKES)
def test_mistakes(written: str, message: str):
    with pytest.raises(Exception, match=re.escape(message)) as found:
        net = eval(written)
        noeira.trace(net, batch=2)
    assert isinstance(found.value, CompositionError | noeira.errors.NoeiraError)


@pytest.mark.parametrize("phase", ["train", "eval"])
def test_a_convolution_is_one_kernel_with_what_follows_it(phase: Any):
    for block, count in ((ResBlock[8], 2), (ResBlockDownsample[8, 16], 3)):
        graph = noeira.trace(block, batch=2, input=(8, 4, 4), phase=phase)
        assert len({node.group for node in graph.nodes if node.group}) == count
        assert all(node.group for node in graph.nodes if node.launches)


def test_kaiming_normal():
    net = Sequential[Conv2D[8, 400, 3]](init=KaimingNormal)
    weight = net[0].weight.val
    assert abs(weight.std() / np.sqrt(2 / (400 * 9)) - 1) < 0.02
    assert not net[0].bias.val.any()


class Photos(ResNet18):
    """ResNet-18 with two stages of a block, and few channels."""

    widths, blocks = (4, 8), (1, 1)


class Icons(ResNet20):
    """ResNet-20 with two stages of a block, and few channels."""

    widths, blocks = (4, 8), (1, 1)


@pytest.mark.parametrize(
    ("net", "target"),
    [
        (Photos[5], "reference"),
        pytest.param(Photos[5], "cpu", marks=needs_compiler),
        pytest.param(Photos[5], "cuda-cpu", marks=[needs_cxx, pytest.mark.slow]),
        (Icons[5], "reference"),
        pytest.param(Icons[5], "cpu", marks=needs_compiler),
    ],
)
def test_a_step_is_that_of_torch(net: type[Module], target: str):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    padded = issubclass(net, Icons)
    twin = torch_resnet(torch, (4, 8), (1, 1), 5, "cifar" if padded else "imagenet", padded)
    twin.double().train()
    names = noeira.nn.resnet_names(net)
    program = noeira.compile(
        net,
        loss=CrossEntropy,
        optimizer=SGD(lr=0.1),
        batch=3,
        input=(3, 11, 10),
        dtype="f64",
        target=target,
    )
    program.tensors.load({name: t.numpy() for name, t in twin.state_dict().items()}, names=names)
    random = np.random.default_rng(0)
    x, y = random.standard_normal((3, 3, 11, 10)), np.array([4, 0, 2])
    loss = torch.nn.functional.cross_entropy(twin(torch.tensor(x)), torch.tensor(y))
    loss.backward()
    torch.optim.SGD(twin.parameters(), lr=0.1).step()
    assert program.step(x, y) == pytest.approx(float(loss.detach()), abs=1e-10)
    after = twin.state_dict()
    for row in names.rows:
        if row.ours:
            wanted = after[row.theirs].numpy()
            wanted = wanted.T if row.kind == "transpose" else wanted
            np.testing.assert_allclose(
                program.tensors[row.ours], wanted, rtol=0, atol=1e-10, err_msg=row.ours
            )
