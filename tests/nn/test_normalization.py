"""Normalisations against PyTorch: values, gradients, running statistics, evaluation; what they
refuse; their kernels.
"""

from __future__ import annotations

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
    GroupNorm,
    InstanceNorm1D,
    InstanceNorm2D,
    LayerNorm,
    LayerNormNoAffine,
    Linear,
    LogSoftmax,
    NameMap,
    ReLU,
    RMSNorm,
    Sequential,
    SiLU,
    Softmax,
)
from noeira.tracing import trace

TARGETS = [
    "reference",
    pytest.param("cpu", marks=needs_compiler),
    pytest.param("cuda-cpu", marks=needs_cxx),
]
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
# The same, channels second: so far the reference alone has them.
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


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", LAST)
def test_channels_last_train_and_evaluate_as_in_pytorch(name: str, target: str) -> None:
    layer, theirs, shape = LAST[name]
    twins = Twins(layer, theirs, shape, target, channels_last=True)
    twins.check_steps()
    twins.check_forward()


@pytest.mark.parametrize("name", SECOND)
def test_channels_second_train_and_evaluate_as_in_pytorch(name: str) -> None:
    twins = Twins(*SECOND[name])
    twins.check_steps()
    twins.check_forward()


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", ROWWISE)
def test_rows_train_and_evaluate_as_in_pytorch(name: str, target: str) -> None:
    twins = Twins(*ROWWISE[name], target)
    twins.check_steps()
    twins.check_forward()
