"""Target networks: one kernel that lets a network follow another, on every target, and what it
leaves on a device.
"""

from __future__ import annotations

import copy
import re
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from needs import needs_compiler
from stateful_layers import Net as Stateful

import noeira
from noeira.errors import CompositionError, NoeiraError, OptionError
from noeira.ir.plan import Plan
from noeira.nn import MSE, SGD, Linear, ReLU, Sequential, Tanh
from noeira.runtime.cuda_cpu.device import CudaCpuDevice

# Elements of all sorts of numbers: 7·33, 33, 33, 1.
Net = Sequential[Linear[7, 33], Tanh, Linear[33, 1]]
TARGETS = [
    "reference",
    *(pytest.param(name, marks=needs_compiler) for name in ("cpu", "cuda-cpu")),
]


def params(net: Any) -> dict[str, np.ndarray]:
    """The parameters of an instance as they are now."""
    return {name: net.parameter(name).val.copy() for name in type(net).parameters()}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_parameters_follow_by_one_kernel(target: str, dtype: Any) -> None:
    slow, fast = Net(seed=1, dtype=dtype), Net(seed=2, dtype=dtype)
    follow = noeira.Polyak(slow, fast, tau=0.05, target=target)
    before, online = params(slow), params(fast)
    expected = {name: value.astype("f8") for name, value in before.items()}
    for _ in range(3):
        follow()
        expected = {n: 0.05 * online[n] + 0.95 * old for n, old in expected.items()}
    for name, value in params(slow).items():
        rtol = 1e-6 if dtype == "f32" else 1e-13
        np.testing.assert_allclose(value, expected[name], rtol=rtol, atol=rtol / 10)
        np.testing.assert_array_equal(fast.parameter(name).val, online[name])
    if isinstance(follow.plan, Plan):
        assert [call.choice.stages[0].name for call in follow.plan.calls] == ["flat_update"]
    assert repr(follow) == f"<Polyak of {Net!r} on {target}, tau 0.05>"


@pytest.mark.parametrize("target", TARGETS)
def test_it_is_pytorchs_lerp(target: str) -> None:
    torch: Any = pytest.importorskip("torch", reason="PyTorch is not installed")
    slow, fast = Net(seed=1, dtype="f64"), Net(seed=2, dtype="f64")
    before, online = params(slow), params(fast)
    noeira.Polyak(slow, fast, tau=0.05, target=target)()
    for name, value in params(slow).items():
        theirs = torch.lerp(torch.tensor(before[name]), torch.tensor(online[name]), 0.05)
        np.testing.assert_allclose(value, theirs.numpy(), rtol=1e-13, atol=1e-16)


@pytest.mark.parametrize("target", TARGETS)
def test_with_tau_1_it_is_a_copy_whatever_was_there(target: str) -> None:
    slow, fast = Net(seed=1), Net(seed=2)
    slow.parameter("0.bias").val[...] = np.nan
    noeira.Polyak(slow, fast, tau=1, target=target)()
    for name, value in params(slow).items():
        np.testing.assert_array_equal(value, fast.parameter(name).val)


@pytest.mark.parametrize("target", TARGETS)
def test_buffers_become_those_of_the_online_network(target: str) -> None:
    slow, fast = Stateful(seed=1), Stateful(seed=2)
    fast.buffer("1.calls").val[...] = 7
    fast.buffer("3.mean").val[...] = 0.25
    follow = noeira.Polyak(slow, fast, tau=0.5, target=target)
    follow()
    for path in Stateful.buffers():
        np.testing.assert_array_equal(slow.buffer(path).val, fast.buffer(path).val)
    fast.buffer("3.mean").val[...] = 0.75
    assert (slow.buffer("3.mean").val == 0.25).all()
    follow()
    assert (slow.buffer("3.mean").val == 0.75).all()
    if isinstance(follow.plan, Plan):
        # The parameters, %buffers, and two counts.
        assert len(follow.plan.calls) == 4


@pytest.mark.parametrize("target", TARGETS)
def test_it_follows_what_is_trained(target: Any) -> None:
    fast = Net(seed=3)
    slow = copy.deepcopy(fast)
    online = noeira.compile(fast, loss=MSE, optimizer=SGD(lr=0.1), batch=8, target=target)
    lagging = noeira.compile(slow, target=target)
    follow = noeira.Polyak(slow, fast, tau=0.25, target=target)
    random = np.random.default_rng(0)
    x, y = random.standard_normal((8, 7)), random.standard_normal((8, 1))
    x, y = x.astype(np.float32), y.astype(np.float32)
    expected = {name: value.astype("f8") for name, value in params(slow).items()}
    for _ in range(4):
        online.step(x, y)
        follow()
        now = {name: value.copy() for name, value in online.params.items()}
        expected = {n: 0.25 * now[n] + 0.75 * old for n, old in expected.items()}
    hidden = np.tanh(x @ expected["0.weight"] + expected["0.bias"])
    output = hidden @ expected["2.weight"] + expected["2.bias"]
    np.testing.assert_allclose(lagging.forward(x), output, rtol=1e-4, atol=1e-5)
    assert np.abs(online.forward(x) - lagging.forward(x)).max() > 1e-3


@needs_compiler
def test_on_one_device_nothing_goes_through_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    Wide = Sequential[Linear[7, 600], Tanh, Linear[600, 1]]
    fast = Wide(seed=3)
    slow = copy.deepcopy(fast)
    options: Any = {"loss": MSE, "optimizer": SGD(lr=0.1), "batch": 8, "target": "cuda-cpu"}
    online, lagging = noeira.compile(fast, **options), noeira.compile(slow, target="cuda-cpu")
    follow = noeira.Polyak(slow, fast, tau=0.25, target="cuda-cpu")
    x, y = np.ones((8, 7), np.float32), np.ones((8, 1), np.float32)
    moved = []
    send, fetch = CudaCpuDevice.copy_in, CudaCpuDevice.copy_out
    monkeypatch.setattr(
        CudaCpuDevice, "copy_in", lambda *given: (moved.append(given[2].nbytes), send(*given))
    )
    monkeypatch.setattr(
        CudaCpuDevice, "copy_out", lambda *given: (moved.append(given[1].nbytes), fetch(*given))
    )
    for _ in range(3):
        online.step(x, y)
        follow()
        lagging.forward(x)
    nbytes = fast.store.memory["params"].nbytes
    assert nbytes > 4096 and moved.count(nbytes) == 2
    moved.clear()
    for _ in range(3):
        online.step(x, y)
        follow()
        lagging.forward(x)
    assert max(moved) < nbytes
    moved.clear()
    assert not np.array_equal(lagging.params["0.weight"], online.params["0.weight"])
    assert moved.count(nbytes) == 2


@needs_compiler
def test_two_that_follow_each_other_do_not_wait_for_each_other() -> None:
    one, other = Net(seed=1), Net(seed=2)
    pair = noeira.Polyak(one, other, tau=0.5), noeira.Polyak(other, one, tau=0.5)
    threads = [
        threading.Thread(target=lambda f=follow: [f() for _ in range(300)], daemon=True)
        for follow in pair
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    for name, value in params(one).items():
        np.testing.assert_allclose(value, other.parameter(name).val, rtol=1e-5, atol=1e-6)


@needs_compiler
def test_its_stages_are_dumped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOEIRA_DUMP", str(tmp_path))
    noeira.Polyak(Net(seed=1), Net(seed=2), tau=0.25)
    traced = (tmp_path / "sequential.polyak" / "00_trace.nir").read_text(encoding="utf-8")
    assert (
        "%params.next = moving_average(%params, %online.params) "
        "{decay = 0.75, from_first = false} : f32 @net" in traced
    )
    assert "by polyak" in traced and list(tmp_path.rglob("*.plan"))


FAST = Net()
OTHER = Sequential[Linear[7, 33], ReLU, Linear[33, 1]]


@pytest.mark.parametrize(
    ("nets", "error", "message"),
    [
        (
            lambda: (Net, FAST),
            CompositionError,
            "Polyak: the target network must be an instance, such as Net(), whose memory it works "
            f"on, not {Net!r}",
        ),
        (
            lambda: (FAST, FAST.child(0)),
            CompositionError,
            "Polyak takes whole networks; the online network is a part, at 0",
        ),
        (
            lambda: (FAST, copy.copy(FAST)),
            CompositionError,
            "Polyak: the target network is the online network; write copy.deepcopy(net) for "
            "another with the same parameters",
        ),
        (
            lambda: (FAST, OTHER()),
            CompositionError,
            "Polyak takes two networks of one type; these differ at 1: the target network has "
            "Tanh, the online network ReLU",
        ),
        (
            lambda: (Sequential[Net, Linear[1, 2]](), Sequential[Net, Linear[1, 3]]()),
            CompositionError,
            "these differ at 1: the target network has Linear[1, 2], the online network "
            "Linear[1, 3]",
        ),
        (
            lambda: (Sequential[Linear[7, 33], Tanh](), FAST),
            CompositionError,
            "these differ at 2: the target network has nothing, the online network Linear[33, 1]",
        ),
        (
            lambda: (FAST, Linear[7, 1]()),
            CompositionError,
            f"these differ: the target network has {Net!r}, the online network Linear[7, 1]",
        ),
        (
            lambda: (FAST, Net(dtype="f64")),
            OptionError,
            "Polyak: the target network is in f32 and the online network in f64: both must have "
            "one dtype",
        ),
        (
            lambda: (Tanh(), Tanh()),
            OptionError,
            "Polyak: Tanh has no parameters, so there is nothing to follow",
        ),
    ],
)
def test_networks_that_cannot_follow(nets: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=f"{re.escape(message)}$"):
        noeira.Polyak(*nets())


@pytest.mark.parametrize("tau", [0, 1.5, -1, float("nan"), "fast", True])
def test_tau_is_a_share(tau: Any) -> None:
    message = f"Polyak: tau must be greater than 0 and at most 1, not {tau!r}"
    with pytest.raises(OptionError, match=f"{re.escape(message)}$"):
        noeira.Polyak(Net(), FAST, tau=tau)
    with pytest.raises(OptionError, match="there is no target 'gpu'"):
        noeira.Polyak(Net(), FAST, target="gpu")


def test_it_stays_as_it_was_made() -> None:
    follow = noeira.Polyak(Net(), FAST, target="reference")
    with pytest.raises(NoeiraError, match="tau of a Polyak cannot be set: make another"):
        follow.tau = 0.5
    with pytest.raises(NoeiraError, match="a Polyak cannot be pickled or copied: pickle or copy"):
        copy.copy(follow)
