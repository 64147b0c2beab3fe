"""Everything a user writes with `noeira.nn`; basedpyright finds nothing to say about it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

import noeira
from noeira.ir.graph import Value
from noeira.nn import (
    GELU,
    MSE,
    SGD,
    Accuracy,
    Adam,
    AdamW,
    Buffer,
    Clamp,
    CrossEntropy,
    Fused,
    Initializer,
    Kaiming,
    LeakyReLU,
    Linear,
    LinearReLU,
    Loss,
    Metric,
    Module,
    NameMap,
    Normal,
    Optimizer,
    Parallel,
    Param,
    ReLU,
    Repeat,
    Residual,
    Row,
    Scale,
    ScaledKaiming,
    Scope,
    Sequential,
    Tanh,
    TopK,
    derived,
    flag,
    size,
)

Small = Sequential[LinearReLU[784, 256], Linear[256, 10]]
Chain = Fused[Linear[784, 256], GELU, ReLU]
Options = Linear.of(784, OUT=256, bias=False)
Wide = Parallel[Linear[4, 3], ReLU[4], Scale.of(multiplier=0.5), Clamp.of(low=-1.0, high=1.0)]
Sloped = Sequential[LeakyReLU.of(slope=0.1), LeakyReLU[4, 0.1]]


class MLP(
    Sequential[LinearReLU[784, 256], Repeat[2, Residual[LinearReLU[256, 256]]], Linear[256, 10]]
):
    """MNIST classifier."""


class Block(Residual):
    """x + Linear(relu(Linear(x))), with a type parameter."""

    D = size()
    INNER = derived(
        lambda block: Sequential[LinearReLU[block.D, 4 * block.D], Linear[4 * block.D, block.D]]
    )


class Affine(Module):
    """x · gain + shift: a layer of one's own."""

    DIM = size()
    SHIFT = flag(True)
    gain = Param("DIM", init="bias")
    shift = Param("DIM", init="bias", when="SHIFT")
    calls = Buffer("DIM")
    signature = "(*, DIM) -> (*, DIM)"

    @classmethod
    def trace(cls, scope: Scope, x: Value) -> Value:
        y = scope.emit("multiply", x, scope.param("gain"))
        return scope.emit("add", y, scope.param("shift")) if cls.SHIFT else y


def parameter_count(net: type[Module]) -> int:
    """A function of a type."""
    return sum(info.size for info in net.parameters().values())


def first_row(layer: Linear[784, 256]) -> np.ndarray:
    """A function of an instance."""
    return layer.weight.val[0]


def train(
    net: Module,
    loss: type[Loss] | Loss,
    metric: type[Metric],
    optimizer: Optimizer,
    init: Initializer | type[Initializer],
) -> None:
    """What a trainer takes."""


def main() -> None:
    """Instances, their memory, and what goes into training."""
    net = MLP(init=ScaledKaiming[1, 3], seed=1)
    net[0].weight.val[...] = 0.0
    net[0].bias.val = np.zeros(256, np.float32)
    first_row(Linear[784, 256]())
    LinearReLU[784, 256]().weight.grd.sum()
    net.parameter("0.weight").m.sum()
    Affine[4]().gain.val.sum()
    Affine[4]().calls.val.sum()
    for layer in net:
        print(layer, len(net))
    sizes: int = Linear[784, 256].IN + Linear[784, 256].OUT
    print(
        sizes,
        Linear[3, 4].BIAS,
        Block[8].gives((8,)),
        MLP.shapes(),
        MLP.solve((784,)).outputs[0].shape,
    )
    print(Small, Chain, Options, Wide, Sloped, parameter_count(MLP), Tanh)
    train(net, CrossEntropy, Accuracy, Adam(lr=1e-3), Kaiming)
    train(net, CrossEntropy.of(smoothing=0.1), TopK[5], AdamW(), Normal[0.0, 0.02])
    train(net, MSE(), TopK[5], SGD(momentum=0.9, nesterov=True), Kaiming())
    keep(noeira.compile(net))


def keep(program: noeira.Program) -> None:
    """Files of weights and of training."""
    names = NameMap(Linear[3, 2], [Row("weight", "w", "transpose"), Row("bias", kind="zeros")])
    program.tensors.save("net.safetensors", dtype="bf16", names=names)
    program.tensors.load("net.safetensors", names=NameMap.of(Linear[3, 2], ["*.extra"]))
    program.tensors.load({"weight": np.zeros((3, 2))})
    program.save(Path("training.safetensors"))
    program.restore("training.safetensors")


if TYPE_CHECKING:
    from typing import assert_type

    assert_type(Linear[784, 256].IN, int)
    assert_type(Linear[784, 256], type[Linear])
    assert_type(Linear.of(784, OUT=256), type[Linear])
    assert_type(MLP(), MLP)
    assert_type(ReLU.DIM, int | None)
