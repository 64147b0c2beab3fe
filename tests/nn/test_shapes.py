"""Layers that move, join, cut and reduce: values and gradients as PyTorch has them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from needs import needs_compiler, needs_cxx

import noeira
from noeira.ir.builder import Builder
from noeira.ir.gradients import gradients
from noeira.ir.interpret import interpret
from noeira.ir.types import TensorType
from noeira.nn import (
    CenterHalf,
    Concat,
    DepthToSpace,
    Flatten,
    Max,
    Min,
    Mul,
    Pad,
    PixelShuffle,
    ReduceMax,
    ReduceMean,
    ReduceSum,
    Reshape,
    Scope,
    Slice,
    SpaceTimeTranspose,
    SpaceToDepth,
    Sub,
    ToNCHW,
    ToNHWC,
    Transpose,
    Transpose2D,
)

torch = pytest.importorskip("torch")
F = torch.nn.functional
IMAGE = (3, 12, 6, 10)
# Layers, what PyTorch has for them, and the shapes of their inputs.
CASES: tuple[tuple[Any, Callable[..., Any], tuple[tuple[int, ...], ...]], ...] = (
    (DepthToSpace[2], torch.nn.PixelShuffle(2), (IMAGE,)),
    (SpaceToDepth[2], torch.nn.PixelUnshuffle(2), (IMAGE,)),
    (ToNHWC, lambda x: x.permute(0, 2, 3, 1), (IMAGE,)),
    (ToNCHW, lambda x: x.permute(0, 3, 1, 2), ((2, 17, 33, 3),)),
    (SpaceTimeTranspose, lambda x: x.transpose(1, 2), ((*IMAGE[:3], 5),)),
    (Transpose2D, lambda x: x.transpose(-1, -2), ((1, 33, 70),)),
    (Transpose[-1, -3, -2], lambda x: x.permute(0, 1, 4, 2, 3), ((2, 3, 4, 5, 6),)),
    (Transpose[-2, -1, -3], lambda x: x.permute(0, 2, 3, 1), ((2, 1, 4, 5),)),
    (Pad[1, 2], lambda x: F.pad(x, (1, 2)), ((3, 17),)),
    (Pad.of(1, 0, 2, 3, value=0.5), lambda x: F.pad(x, (1, 0, 2, 3), value=0.5), (IMAGE,)),
    (Pad[0, 0, 0, 0, 1, 1], lambda x: F.pad(x, (0, 0, 0, 0, 1, 1)), (IMAGE,)),
    (Slice[2, 5], lambda x: x[..., 2:5], (IMAGE,)),
    (Slice[1, -1], lambda x: x[..., 1:-1], ((3, 33),)),
    (Slice.of(-3, axis=-3), lambda x: x[:, -3:], (IMAGE,)),
    (Concat, lambda a, b: torch.cat([a, b], -1), ((3, 2, 5), (3, 2, 1))),
    (Concat.of(3, axis=-3), lambda *x: torch.cat(x, 1), (IMAGE, (3, 1, 6, 10), IMAGE)),
    (Flatten, lambda x: x.flatten(1), (IMAGE,)),
    (Flatten.of(axes=2), lambda x: x.flatten(2), (IMAGE,)),
    (Reshape[10, -1], lambda x: x.reshape(len(x), 10, -1), (IMAGE,)),
    (ReduceSum, lambda x: x.sum((1, 2, 3)), (IMAGE,)),
    (ReduceSum[-3], lambda x: x.sum(1), (IMAGE,)),
    (ReduceMean.of(-3, -1, keep=True), lambda x: x.mean((1, 3), keepdim=True), (IMAGE,)),
    (ReduceMax, lambda x: x.flatten(1).max(1)[0], (IMAGE,)),
    (ReduceMax[-1], lambda x: x.max(-1)[0], ((5, 33),)),
    (ReduceMax[-2], lambda x: x.max(-2)[0], (IMAGE,)),
    (ReduceMax.of(-3, -2), lambda x: x.flatten(1, 2).max(1)[0], (IMAGE,)),
    (Min, torch.minimum, ((3, 7), (3, 7))),
    (Max, torch.maximum, ((3, 7), (3, 7))),
    (Sub, torch.sub, ((3, 7), (3, 7))),
    (Mul, torch.mul, ((3, 7), (3, 7))),
    (CenterHalf, lambda x: x - 0.5, ((3, 7),)),
)


def ids(case: Any) -> str:
    return repr(case[0])


def drawn(shapes: tuple[tuple[int, ...], ...]) -> list[np.ndarray]:
    """Small whole numbers and halves, many of them equal."""
    random = np.random.default_rng(len(shapes))
    return [np.round(random.standard_normal(shape) * 2).astype("f4") / 2 for shape in shapes]


@pytest.mark.parametrize("case", CASES, ids=ids)
def test_values_and_gradients(case: Any) -> None:
    net, like, shapes = case
    arrays = drawn(shapes)
    tensors = [torch.tensor(array, requires_grad=True) for array in arrays]
    wanted = like(*tensors)
    cotangent = drawn((tuple(wanted.shape),))[0]
    wanted.backward(torch.tensor(cotangent))
    assert eval(repr(net)) is net
    given = [array.shape[1:] for array in arrays]
    assert net.gives(*given) == tuple(wanted.shape[1:])
    builder = Builder("layer")
    inputs = [builder.input(f"x{i}", TensorType("f32", a.shape)) for i, a in enumerate(arrays)]
    made = Scope(builder, net, {}).run(*inputs)
    d = builder.input("d", made.type)
    found = gradients(builder, {made.name: d}, inputs, "vjp")
    graph = builder.done([made, *found.values()])
    values = interpret(graph, {"d": cotangent} | {f"x{i}": a for i, a in enumerate(arrays)})
    assert np.allclose(values[made.name], wanted.detach().numpy(), atol=1e-6)
    for index, tensor in enumerate(tensors):
        gradient = values[found[f"x{index}"].name]
        assert np.allclose(gradient, tensor.grad.numpy(), atol=1e-6)


@pytest.mark.parametrize(
    ("target", "each"),
    [
        pytest.param("cpu", 3, marks=needs_compiler),
        pytest.param("cpu", 1, marks=[needs_compiler, pytest.mark.slow]),
        pytest.param("cuda-cpu", 1, marks=[needs_cxx, pytest.mark.slow]),
    ],
)
def test_kernels_of_layers(target: str, each: int) -> None:
    for net, like, shapes in CASES[::each]:
        arrays = drawn(shapes)
        given = tuple(array.shape[1:] for array in arrays)
        program = noeira.compile(net, batch=len(arrays[0]), input=given, target=target)
        made = program.forward(tuple(arrays) if len(arrays) > 1 else arrays[0])
        wanted = like(*map(torch.tensor, arrays)).numpy()
        assert np.allclose(made, wanted, atol=1e-6), repr(net)


def test_patches_become_tokens() -> None:
    net, (grid, embed, scale) = PixelShuffle[6, 5, 3], (6, 5, 3)
    x = drawn(((2, grid * grid, embed),))[0]
    program = noeira.compile(net, batch=2, target="reference")
    # As the connectors of these models write it.
    y = torch.tensor(x).view(2, grid, grid // scale, embed * scale).permute(0, 2, 1, 3)
    y = y.reshape(2, grid // scale, grid // scale, embed * scale**2).permute(0, 2, 1, 3)
    assert np.array_equal(program.forward(x), y.reshape(2, -1, embed * scale**2).numpy())
    assert str(PixelShuffle[32, 768, 4].shapes()) == "(1024, 768) -> (64, 12288)"


def test_the_greatest_is_nan_if_one_is() -> None:
    x = np.array([[1, np.nan, 3], [2, 2, 1], [-np.inf, -np.inf, -np.inf]], "f4")
    program = noeira.compile(ReduceMax[-1], batch=3, input=(3,), target="reference")
    assert np.array_equal(program.forward(x), torch.tensor(x).max(-1)[0].numpy(), equal_nan=True)


def test_what_moves_nothing_launches_nothing() -> None:
    for net, shape in ((Transpose[-2, -1, -3], (1, 4, 5)), (Flatten, (2, 3)), (Pad[0, 0], (3,))):
        # What is given must have memory of its own: the copy.
        ops = [launch.op for launch in noeira.explain(net, loss=None, input=shape).launches]
        assert ops == ["copy"], net
