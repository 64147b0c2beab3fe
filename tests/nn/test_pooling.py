"""Layers of pooling: what they take and give; PyTorch as the oracle of values and gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from needs import needs_compiler, needs_cxx
from says import says

import noeira
from noeira.errors import CompositionError, ShapeError
from noeira.ir.builder import Builder
from noeira.ir.gradients import gradients
from noeira.ir.interpret import interpret
from noeira.ir.types import TensorType
from noeira.nn import (
    AdaptiveAvgPool2D,
    AdaptiveMaxPool2D,
    AvgPool1D,
    AvgPool2D,
    AvgPool3D,
    Fused,
    GlobalAvgPool2D,
    GlobalMaxPool2D,
    MaxPool1D,
    MaxPool2D,
    MaxPool3D,
    ReLU,
    Sequential,
    Tanh,
    Upsample,
    Upsample2x,
)
from noeira.tracing import trace


@pytest.fixture(scope="module")
def torch() -> Any:
    """PyTorch, imported when the first test asks for it."""
    return pytest.importorskip("torch", reason="PyTorch is not installed")


# A layer, what it is in `torch.nn.functional`, and the shape of a sample.
LAYERS = [
    (MaxPool2D[2], lambda F, x: F.max_pool2d(x, 2), (3, 7, 8)),
    (MaxPool2D[3, 2, 1], lambda F, x: F.max_pool2d(x, 3, 2, 1), (3, 7, 8)),
    (MaxPool2D[3, 1, 1], lambda F, x: F.max_pool2d(x, 3, 1, 1), (2, 5, 1)),
    (MaxPool2D[1], lambda F, x: F.max_pool2d(x, 1), (2, 3, 3)),
    (
        MaxPool2D.of(3, 2, ceil=True),
        lambda F, x: F.max_pool2d(x, 3, 2, ceil_mode=True),
        (2, 8, 6),
    ),
    (
        MaxPool2D.of(2, 3, padding=1, ceil=True),
        lambda F, x: F.max_pool2d(x, 2, 3, 1, ceil_mode=True),
        (2, 7, 9),
    ),
    (
        MaxPool2D.of(3, 2, padding=1, dilation=2),
        lambda F, x: F.max_pool2d(x, 3, 2, 1, 2),
        (2, 9, 8),
    ),
    (MaxPool1D.of(4, 3, padding=2), lambda F, x: F.max_pool1d(x, 4, 3, 2), (3, 11)),
    (MaxPool3D[2], lambda F, x: F.max_pool3d(x, 2), (2, 4, 5, 6)),
    (AvgPool2D[2], lambda F, x: F.avg_pool2d(x, 2), (3, 7, 8)),
    (AvgPool2D[3, 2, 1], lambda F, x: F.avg_pool2d(x, 3, 2, 1), (3, 7, 8)),
    (
        AvgPool2D.of(3, 2, padding=1, count_padding=False),
        lambda F, x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
        (3, 7, 8),
    ),
    (
        AvgPool2D.of(3, 2, padding=1, ceil=True),
        lambda F, x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True),
        (2, 6, 8),
    ),
    (
        AvgPool2D.of(2, 3, ceil=True),
        lambda F, x: F.avg_pool2d(x, 2, 3, ceil_mode=True),
        (2, 7, 9),
    ),
    (AvgPool1D.of(3, 2, padding=1), lambda F, x: F.avg_pool1d(x, 3, 2, 1), (3, 10)),
    (AvgPool3D.of(2, 1, padding=1), lambda F, x: F.avg_pool3d(x, 2, 1, 1), (2, 3, 4, 2)),
    (AdaptiveAvgPool2D[3, 4], lambda F, x: F.adaptive_avg_pool2d(x, (3, 4)), (2, 7, 9)),
    (AdaptiveAvgPool2D[5, 2], lambda F, x: F.adaptive_avg_pool2d(x, (5, 2)), (2, 3, 4)),
    (AdaptiveMaxPool2D[3, 4], lambda F, x: F.adaptive_max_pool2d(x, (3, 4)), (2, 7, 8)),
    (GlobalAvgPool2D, lambda F, x: F.adaptive_avg_pool2d(x, 1).flatten(1), (5, 7, 7)),
    (GlobalMaxPool2D, lambda F, x: F.adaptive_max_pool2d(x, 1).flatten(1), (5, 7, 7)),
    (Upsample2x, lambda F, x: F.interpolate(x, scale_factor=2), (3, 5, 4)),
    (Upsample[3], lambda F, x: F.interpolate(x, scale_factor=3), (2, 2, 5)),
]


def behind(layer: Any) -> Any:
    """The same layer of images whose channels are the last axis."""
    last = {1: "nlc", 2: "nhwc", 3: "ndhwc"}[len(layer.letters)]
    named = {name: getattr(layer, name) for name in layer.slots if name != "AXES"}
    return layer.family.of(**named, axes=last)


def moved(x: np.ndarray, there: Any, to: Any) -> np.ndarray:
    """Images with their channels elsewhere; what has no other axes is as it is."""
    return np.moveaxis(x, there, to) if x.ndim > 2 else x


@pytest.mark.parametrize("last", [False, True], ids=["first", "last"])
@pytest.mark.parametrize(("layer", "theirs", "shape"), LAYERS, ids=[repr(r[0]) for r in LAYERS])
def test_values_and_gradients(
    torch: Any, layer: Any, theirs: Any, shape: tuple[int, ...], last: bool
) -> None:
    random = np.random.default_rng(0)
    x = random.standard_normal((2, *shape))
    # Some equal elements: the first of them is the maximum.
    x = np.where(random.random(x.shape) < 0.3, 1.0, x)
    leaf = torch.tensor(x, requires_grad=True)
    expected = theirs(torch.nn.functional, leaf)
    d = random.standard_normal(expected.shape)
    expected.backward(torch.tensor(d))
    assert layer.gives(shape) == expected.shape[1:]
    own, given, flow = layer, x, d
    if last:
        own, given, flow = behind(layer), moved(x, 1, -1), moved(d, 1, -1)
    graph = trace(own, batch=2, input=given.shape[1:], dtype="f64")
    builder = Builder.of(graph)
    seed = builder.input("seed", TensorType("f64", flow.shape))
    image = graph.inputs[0].value
    found = gradients(builder, {graph.outputs[0].name: seed}, [image], "vjp")
    values = interpret(builder.done(()), {image.name: given, "seed": flow})
    y, gradient = values[graph.outputs[0].name], values[found[image.name].name]
    if last:
        y, gradient = moved(y, -1, 1), moved(gradient, -1, 1)
    np.testing.assert_allclose(y, expected.detach().numpy(), rtol=1e-13, atol=1e-15)
    np.testing.assert_allclose(gradient, leaf.grad.numpy(), rtol=1e-13, atol=1e-15)


def test_not_a_number_is_the_maximum(torch: Any) -> None:
    x = np.random.default_rng(1).standard_normal((1, 1, 6, 6))
    x[0, 0, 1, 1:4], x[0, 0, 4:, :2] = np.nan, -np.inf
    leaf = torch.tensor(x, requires_grad=True)
    expected = torch.nn.functional.max_pool2d(leaf, 2)
    expected.sum().backward()
    builder = Builder("nan")
    given = builder.input("x", TensorType("f64", x.shape))
    y = builder.emit("max_pool", given, kernel=(2, 2))
    d = builder.emit("max_pool_grad", given, builder.input("d", y.type), kernel=(2, 2))
    values = interpret(builder.done(()), {"x": x, "d": np.ones(y.type.shape)})
    np.testing.assert_array_equal(values[y.name], expected.detach().numpy())
    np.testing.assert_array_equal(values[d.name], leaf.grad.numpy())


@pytest.mark.parametrize(
    "target",
    [
        pytest.param("cpu", marks=needs_compiler),
        pytest.param("cuda-cpu", marks=needs_cxx),
    ],
)
def test_compiled_with_what_follows(target: Any) -> None:
    net = Sequential[
        Fused[behind(MaxPool2D[3, 2, 1]), Tanh],
        Fused[behind(AvgPool2D.of(2, 1, padding=1, count_padding=False)), ReLU],
        behind(Upsample2x),
        behind(GlobalMaxPool2D),
    ]
    x = np.random.default_rng(2).standard_normal((3, 9, 8, 17)).astype("f4")
    got, expected = (
        noeira.compile(net, batch=3, input=x.shape[1:], target=t).forward(x)
        for t in (target, "reference")
    )
    np.testing.assert_allclose(got, expected, rtol=1e-6)
    launches = noeira.explain(net, loss=None, input=x.shape[1:]).launches
    assert [launch.op for launch in launches] == [
        "fused[max_pool, tanh]",
        "fused[window_sum, relu]",
        "window_spread",
        "max_pool",
    ]


def test_lengths_are_solved_in_both_directions() -> None:
    net = Sequential[MaxPool2D[3, 2, 1], ReLU, AvgPool2D[2], Upsample2x]
    assert str(MaxPool2D[3, 2, 1].shapes()) == "(C, H, W) -> (C, (H + 1)//2, (W + 1)//2)"
    assert str(MaxPool1D.of(3, 1, axes="nlc").shapes()) == "(L, C) -> (L - 2, C)"
    assert net.gives((8, 13, 30)) == (8, 6, 14)
    assert Upsample2x.takes((8, 6, 14)) == (8, 3, 7)
    assert MaxPool2D.of(3, 1, padding=1).takes((8, 6, 14)) == (8, 6, 14)
    assert Sequential[MaxPool2D[2], GlobalAvgPool2D].gives((8, 6, 14)) == (8,)
    assert repr(MaxPool2D[3, 2, 1]) == "MaxPool2D.of(3, 2, padding=1)"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: MaxPool2D[3, 2, 2],
            "MaxPool2D.of(3, 2, padding=2): padding must be at most 1, half of K, not 2",
        ),
        (
            lambda: MaxPool2D[2, 0],
            "MaxPool2D[2, 0]: STRIDE must be a positive whole number or None, not 0",
        ),
        (
            lambda: AvgPool2D.of(2, axes="chw"),
            "AvgPool2D.of(2, axes='chw'): axes must be 'nchw' or 'nhwc', not 'chw'",
        ),
        (
            lambda: Sequential[Upsample2x, GlobalAvgPool2D, MaxPool2D[2]],
            "layers 1 and 2 of Sequential do not fit\n\n"
            "    Sequential[Upsample2x, GlobalAvgPool2D, MaxPool2D[2]]\n"
            "                           ~~~~~~~~~~~~~~~  ~~~~~~~~~~~~\n"
            "                           gives (C)        takes (C, H, W)\n\n"
            "  They differ in the number of axes.",
        ),
    ],
)
def test_mistakes(make: Any, message: str) -> None:
    says(make, message, CompositionError)


SMALL = "; take larger images, more padding or a smaller K"


def test_a_window_larger_than_the_image() -> None:
    says(
        lambda: MaxPool2D[5].gives((3, 2, 9)),
        "MaxPool2D[5] takes (C, H, W), not (3, 2, 9), of which it would make (3, 0, 1): a window "
        f"spans 5 cells of an axis{SMALL}",
        ShapeError,
    )
    says(
        lambda: AvgPool2D.of(5, 1, padding=1).gives((3, 2, 9)),
        "AvgPool2D.of(5, 1, padding=1) takes (C, H, W), not (3, 2, 9), of which it would make "
        f"(3, 0, 7): a window spans 5 cells of an axis, with 1 of padding on both sides{SMALL}",
        ShapeError,
    )
