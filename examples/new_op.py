"""A new operation in a file of one's own: one class, one formula; then a layer that uses it, fused,
trained, and its gradient checked.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import noeira
from noeira.ir.graph import Value
from noeira.ir.ops.elementwise import Elementwise
from noeira.ir.scalar import Expr, call, var
from noeira.nn import MSE, Adam, Fused, Linear, Module, Scope, Sequential


class Softsign(Elementwise):
    """x / (1 + |x|) (Bergstra et al. 2009)"""

    name = "softsign"

    def expression(self, attrs: Any) -> Expr:
        return var("x") / (call("abs", var("x")) + 1.0)


class SoftsignLayer(Module):
    """softsign x, for any shape"""

    signature = "(*) -> (*)"

    @classmethod
    def trace(cls, scope: Scope, x: Value) -> Value:
        return scope.emit("softsign", x)


class Net(Sequential[Fused[Linear[2, 16], SoftsignLayer], Linear[16, 1]]):
    """The new operation runs where the product is stored, as ReLU does in LinearReLU."""


def check_gradient(x: np.ndarray, y: np.ndarray) -> float:
    """The largest difference between a gradient and central differences, in float64."""
    program = noeira.compile(Net, loss=MSE, batch=len(x), dtype="f64")
    program.gradients(x, y)
    gradients = {name: program.module.parameter(name).grd.copy() for name in program.params}
    worst, step = 0.0, 1e-5
    for name, gradient in gradients.items():
        values = program.params[name]
        for index in np.ndindex(values.shape):
            before = values[index]
            values[index] = before + step
            above = program.gradients(x, y)
            values[index] = before - step
            below = program.gradients(x, y)
            values[index] = before
            worst = max(worst, abs((above - below) / (2 * step) - gradient[index]))
    return worst


def main() -> None:
    """Compile, train and check."""
    random = np.random.default_rng(0)
    x = random.uniform(-2, 2, (256, 2)).astype(np.float32)
    y = np.sin(x[:, :1]) * x[:, 1:]
    explanation = noeira.explain(Net, batch=256, loss=MSE)
    assert explanation.launches[0].op == "fused[linear, softsign]"

    worst = check_gradient(x[:32].astype(np.float64), y[:32].astype(np.float64))
    assert worst < 1e-8, worst
    print(f"gradient and central differences differ by at most {worst:.1e}")

    program = noeira.compile(Net, loss=MSE, optimizer=Adam(lr=1e-2), batch=256)
    losses = [program.step(x, y) for _ in range(500)]
    assert losses[-1] < losses[0] / 100
    print(f"loss {losses[0]:.4f} -> {losses[-1]:.4f} in 500 steps on target {program.target}")


if __name__ == "__main__":
    main()
