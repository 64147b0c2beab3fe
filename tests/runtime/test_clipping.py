"""Clipping in training: against PyTorch, what is reported, what is not finite."""

from __future__ import annotations

import numpy as np
import pytest
from needs import needs_cxx
from program_networks import data, flat
from torch_twin import Twin, TwinNet

import noeira
from noeira.errors import NotFiniteError
from noeira.nn import SGD, ClipAdaptive, ClipNorm, ClipValue, CrossEntropy, Linear

TARGETS = ["reference", "cpu", pytest.param("cuda-cpu", marks=[needs_cxx, pytest.mark.slow])]


def program_of(clip: object, target: str = "cpu") -> noeira.Program:
    """The network of the twin, with a batch of 20."""
    return noeira.compile(
        TwinNet, loss=CrossEntropy, optimizer=SGD(lr=0.5), clip=clip, batch=20, target=target
    )


@pytest.mark.parametrize("target", TARGETS)
def test_clipping_by_norm_is_that_of_pytorch(target: str) -> None:
    x, y = data(20)
    program = program_of(ClipNorm(0.2), target)
    twin = Twin(program)
    optimizer = twin.torch.optim.SGD(twin.net.parameters(), lr=0.5)
    for _ in range(20):
        optimizer.zero_grad()
        twin.loss(x, y).backward()
        norm = twin.torch.nn.utils.clip_grad_norm_(twin.net.parameters(), 0.2)
        optimizer.step()
        results = program.run("step", x, y)
        assert float(results["grad_norm"]) == pytest.approx(float(norm), rel=1e-5)
    twin.check(program, 1e-4, 1e-5)


@pytest.mark.parametrize("target", TARGETS)
def test_clipping_by_value_is_that_of_pytorch(target: str) -> None:
    x, y = data(20)
    program = program_of(ClipValue(0.01), target)
    twin = Twin(program)
    optimizer = twin.torch.optim.SGD(twin.net.parameters(), lr=0.5)
    for _ in range(20):
        optimizer.zero_grad()
        twin.loss(x, y).backward()
        twin.torch.nn.utils.clip_grad_value_(twin.net.parameters(), 0.01)
        optimizer.step()
        program.step(x, y)
    twin.check(program, 1e-4, 1e-5)


@pytest.mark.parametrize("target", TARGETS)
def test_adaptive_clipping_looks_at_each_tensor(target: str) -> None:
    x, y = data(20)
    program, plain = program_of(ClipAdaptive(0.01, least=1e-3), target), program_of(None, target)
    before = {name: program.params[name].astype("f8") for name in program.params}
    plain.gradients(x, y)
    program.step(x, y)
    for name, value in before.items():
        gradient = plain.module.store.view("grd", name).astype("f8")
        norms = np.linalg.norm(value), np.linalg.norm(gradient)
        factor = min(1.0, 0.01 * max(1e-3, norms[0]) / norms[1])
        wanted = value - 0.5 * factor * gradient
        np.testing.assert_allclose(program.params[name], wanted, rtol=1e-5, atol=1e-7)


def test_the_norm_is_reported_over_steps() -> None:
    x, y = data(60)
    program, single = program_of(ClipNorm(0.1)), program_of(ClipNorm(0.1))
    program.load(x, y, shuffle=False)
    program.steps(3)
    norms = [
        float(single.run("step", x[s : s + 20], y[s : s + 20])["grad_norm"]) for s in (0, 20, 40)
    ]
    assert program.report()["grad_norm"] == pytest.approx(np.mean(norms), rel=1e-6)
    assert max(norms) > 0.1


def test_without_a_limit_the_norm_alone_is_reported() -> None:
    x, y = data(20)
    program, plain = program_of(ClipNorm(0)), program_of(None)
    assert float(program.run("step", x, y)["grad_norm"]) > 0
    plain.step(x, y)
    assert flat(program).tobytes() == flat(plain).tobytes()


def test_a_norm_that_is_not_finite_changes_nothing() -> None:
    x, y = data(20)
    x[3] = 1e25
    program = noeira.compile(
        Linear[13, 5], loss=CrossEntropy, optimizer=SGD, clip=ClipNorm(1.0), batch=20
    )
    before = flat(program)
    # The loss is finite, and the square of the gradient is not.
    assert np.isfinite(program.step(x, y))
    assert flat(program).tobytes() == before.tobytes() and program.updates == 0
    program.load(x, y)
    with pytest.raises(NotFiniteError, match="the gradient norm of step 1 is not finite"):
        program.steps(1)
