"""Layers with states, and layers that ask for random numbers, for the tests of programs."""

from __future__ import annotations

from noeira.ir.graph import Value
from noeira.ir.random import Distribution, constant
from noeira.nn import Buffer, Linear, Module, Param, Scope, Sequential, Tanh, size


class RunningMean(Module):
    """x − mean + shift: the mean of the rows of the batch in training, of all batches so far in
    evaluation; `calls` counts the batches, `scale` is drawn and stays as it is.
    """

    DIM = size()
    shift = Param("DIM", init="bias")
    calls = Buffer(dtype="i64")
    mean = Buffer("DIM", init=constant(0.5))
    scale = Buffer("DIM", init=Distribution("normal", (0.0, 1.0)))
    signature = "(DIM) -> (DIM)"

    @classmethod
    def trace(cls, scope: Scope, x: Value) -> Value:
        mean = scope.param("mean")
        if scope.phase == "train":
            old = mean
            mean = scope.emit("sum", x, axes=(0,), scale=1 / x.type.shape[0])
            moved = scope.emit("scale", scope.emit("subtract", mean, old), factor=0.25)
            scope.update("mean", scope.emit("add", old, moved))
            scope.update("calls", scope.emit("count", scope.param("calls")))
        centred = scope.emit("subtract", x, mean)
        return scope.emit("add", centred, scope.param("shift"))


Net = Sequential[Linear[4, 6], RunningMean[6], Tanh, RunningMean[6], Linear[6, 3]]


class Noise(Module):
    """x, plus in training a number that says what was drawn from: seed + 10 tick + 100 stream, in
    thousandths. For f64.
    """

    signature = "(DIM) -> (DIM)"

    @classmethod
    def trace(cls, scope: Scope, x: Value) -> Value:
        if scope.phase == "eval":
            return x
        total = scope.emit("constant", value=0.0, dtype="f64")
        for weight, number in zip((0.001, 0.01, 0.1), scope.random(), strict=True):
            total = scope.emit("accumulate", total, number, weight=weight)
        return scope.emit("add", x, total)


class Brittle(Module):
    """x / (tick − 2) in training, which is not finite at tick 2. For f64."""

    signature = "(DIM) -> (DIM)"

    @classmethod
    def trace(cls, scope: Scope, x: Value) -> Value:
        if scope.phase == "eval":
            return x
        _, tick, _ = scope.random()
        two = scope.emit("constant", value=-2.0, dtype="f64")
        return scope.emit("divide", x, scope.emit("accumulate", two, tick))
