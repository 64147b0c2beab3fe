"""Losses and their gradients against PyTorch, one program for all of them; with weights, not
reduced, and of large logits.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
import pytest
from loss_cases import (
    CASES,
    Case,
    Places,
    classes,
    heads,
    ids,
    real,
    rows_of,
    sequences,
    weighted,
)

import noeira
from noeira.ir.graph import Value
from noeira.nn import (
    MSE,
    SGD,
    CrossEntropy,
    GaussianKL,
    Linear,
    Loss,
    Losses,
    Module,
    Scope,
    SequenceCrossEntropy,
    Sequential,
    SoftCrossEntropy,
    StandardNormalKL,
    Tanh,
    Weighted,
    module,
)
from noeira.nn.core.signature import Pattern, Signature

DTYPES = {"f32": np.float32, "f64": np.float64}


class Squares(Loss):
    """The sum of the squares of what a loss gives that is not reduced."""

    LOSS = module("loss")

    @classmethod
    def children(cls) -> tuple[tuple[str, type[Module]], ...]:
        return (("each", cls.LOSS),)

    @classmethod
    def compose(cls) -> Signature:
        return Signature(cls.LOSS.shapes().inputs, (Pattern(()),))

    @classmethod
    def trace(cls, scope: Scope, *given: Value) -> Value:
        each = scope.child("each", cls.LOSS).run(*given)
        return scope.emit("sum", each * each)


def squares(loss: Any, theirs: Any, *drawn: Any) -> Case:
    """The case of a loss that is not reduced, inside another one."""
    return Case(Squares[loss], lambda F, *given: (theirs(F, *given) ** 2).sum(), *drawn)


def place_losses(F: Any, z: Any, y: Any) -> Any:
    return F.cross_entropy(z.flatten(0, 1), y.flatten(), ignore_index=0, reduction="none")


UNREDUCED = (
    squares(MSE.of(reduction="none"), lambda F, x, t: (x - t) ** 2, real),
    squares(
        CrossEntropy.of(smoothing=0.2, reduction="none"),
        lambda F, z, y: F.cross_entropy(z, y, label_smoothing=0.2, reduction="none"),
        ids,
        classes,
    ),
    squares(
        SoftCrossEntropy.of(reduction="none"),
        lambda F, z, t: F.cross_entropy(z, t, reduction="none"),
        rows_of,
        classes,
    ),
    squares(
        SequenceCrossEntropy.of(ignored=0, reduction="none"),
        place_losses,
        sequences,
        lambda columns: (3, *classes(columns)),
    ),
    squares(
        Weighted.of(MSE, reduction="none"),
        lambda F, x, t, w: (x - t) ** 2 * w[:, None],
        weighted(real),
    ),
)
SETS = {"reduced": CASES, "unreduced": UNREDUCED}


class Heads:
    """The program of some cases, run on outputs."""

    def __init__(self, kind: str, rows: int, columns: int, target: str, dtype: Any) -> None:
        self.cases, self.rows, self.columns = SETS[kind], rows, columns
        loss = Losses[tuple(case.loss for case in self.cases)]
        net = heads(self.cases, rows, columns)
        options: Any = {"loss": loss, "batch": rows, "dtype": dtype, "target": target}
        self.program = noeira.compile(net, metrics=[], **options)
        self.dtype, random = DTYPES[dtype], np.random.default_rng(3)
        self.targets = [case.targets(random, rows, columns) for case in self.cases]

    def outputs(self, size: float = 1.0) -> list[np.ndarray]:
        random = np.random.default_rng(4)
        shapes = ((self.rows, *case.width(self.columns)) for case in self.cases)
        return [size * random.standard_normal(shape) for shape in shapes]

    def run(self, outputs: list[np.ndarray]) -> tuple[float, list[np.ndarray]]:
        """The sum of the losses, and the gradient of each in its output."""
        for index, output in enumerate(outputs):
            self.program.params[f"w{index}"][...] = output.reshape(self.rows, -1)
        found = [
            array.astype(self.dtype) if array.dtype.kind == "f" else array
            for arrays in self.targets
            for array in arrays
        ]
        loss = self.program.gradients(np.eye(self.rows, dtype=self.dtype), tuple(found))
        names = (f"w{index}" for index in range(len(outputs)))
        pairs = zip(names, outputs, strict=True)
        return loss, [self.program.store.view("grd", n).reshape(o.shape) for n, o in pairs]

    def expected(self, torch: Any, outputs: list[np.ndarray]) -> tuple[float, list[np.ndarray]]:
        """The same by PyTorch, in f64."""
        total, found = 0.0, list[np.ndarray]()
        for case, output, targets in zip(self.cases, outputs, self.targets, strict=True):
            z = torch.tensor(output, requires_grad=True)
            loss = case.theirs(torch.nn.functional, z, *map(torch.tensor, targets))
            loss.backward()
            total += loss.item()
            found.append(z.grad.numpy())
        return total, found


@functools.cache
def program_of(kind: str, rows: int, columns: int, target: str, dtype: str) -> Heads:
    return Heads(kind, rows, columns, target, dtype)


COMPILED = ("cpu", "cuda-cpu")
SIZES = [
    *((size, "reference", "f64") for size in ((1, 1), (1, 33), (257, 1), (257, 33))),
    *(((257, 33), target, "f32") for target in COMPILED),
    *(pytest.param((1, 1), target, "f64", marks=pytest.mark.slow) for target in COMPILED),
]


@pytest.fixture(scope="module")
def torch() -> Any:
    """PyTorch, imported when the first test asks for it."""
    return pytest.importorskip("torch", reason="PyTorch is not installed")


@pytest.mark.parametrize("kind", SETS)
@pytest.mark.parametrize(("size", "target", "dtype"), SIZES)
def test_losses_and_their_gradients(
    torch: Any, kind: str, size: tuple[int, int], target: str, dtype: str
) -> None:
    run = program_of(kind, *size, target, dtype)
    outputs = run.outputs()
    (loss, gradients), (total, expected) = run.run(outputs), run.expected(torch, outputs)
    near = 1e-5 if dtype == "f32" else 1e-10
    assert loss == pytest.approx(total, rel=near)
    for case, got, wanted in zip(run.cases, gradients, expected, strict=True):
        scale = np.abs(wanted).max()
        np.testing.assert_allclose(got, wanted, 0, near * scale, err_msg=repr(case.loss))


@pytest.mark.parametrize("target", ["reference", "cpu", "cuda-cpu"])
def test_large_outputs_make_no_nan(target: str) -> None:
    run = program_of("reduced", 257, 33, target, "f64" if target == "reference" else "f32")
    loss, gradients = run.run(run.outputs(size=1e4))
    assert not np.isnan(loss)
    for case, got in zip(run.cases, gradients, strict=True):
        # A variance of exp(1e4) is infinite, and the product with the identity mixes that.
        if case.loss not in (StandardNormalKL, GaussianKL):
            assert np.isfinite(got).all(), case.loss


@pytest.mark.parametrize("case", CASES, ids=[repr(case.loss) for case in CASES])
def test_twenty_steps_with_each_loss(torch: Any, case: Case) -> None:
    shape, rows, random = case.width(4), 7, np.random.default_rng(1)
    x, targets = random.standard_normal((rows, 5)), case.targets(random, rows, 4)
    shaped = (Places[shape],) if len(shape) > 1 else ()
    net = Sequential[(Linear[5, 6], Tanh, Linear[6, math.prod(shape)], *shaped)]
    options: Any = {"batch": rows, "dtype": "f64", "target": "reference", "metrics": []}
    program = noeira.compile(net, loss=case.loss, optimizer=SGD(lr=0.05), **options)
    params = {n: torch.tensor(v.copy(), requires_grad=True) for n, v in program.params.items()}
    optimizer = torch.optim.SGD(list(params.values()), lr=0.05)
    for _ in range(20):
        optimizer.zero_grad()
        hidden = (torch.tensor(x) @ params["0.weight"] + params["0.bias"]).tanh()
        given = (hidden @ params["2.weight"] + params["2.bias"]).reshape(rows, *shape)
        expected = case.theirs(torch.nn.functional, given, *map(torch.tensor, targets))
        expected.backward()
        optimizer.step()
        given = targets if len(targets) != 1 else targets[0]
        assert program.step(x, given) == pytest.approx(expected.item(), rel=1e-9)
    for name, param in params.items():
        np.testing.assert_allclose(program.params[name], param.detach().numpy(), rtol=1e-8)
