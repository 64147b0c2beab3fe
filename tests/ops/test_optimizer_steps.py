"""Every optimizer over twenty steps: with decay, ranges and clipping, against PyTorch, and against
loops written from the papers where it has none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from needs import needs_compiler
from stepped import DTYPES, TARGETS, Stepped, update_case

from noeira.ir.layouts import Range
from noeira.ir.ops.optimizer import Optimizer

SIZE, STEPS, RATE, DECAY = 331, 20, 0.01, 0.1
# Neighbours that only a factor of their own tells apart, one without decay, some elements that stay
# as they are, one that is slower.
RANGES = (
    Range(0, 64),
    Range(64, 96),
    Range(96, 100, (("weight_decay", 0.0),)),
    Range(128, 331, (("lr_factor", 0.25),)),
)
FACTORS = np.array([1.0, 0.5, 0.75, 0.3])


class Theirs:
    """An optimizer of PyTorch, with a group of its own for each range."""

    def __init__(self, name: str, dtype: str, p: np.ndarray, **options: Any) -> None:
        self.torch = torch = pytest.importorskip("torch", reason="PyTorch is not installed")
        kind = getattr(torch, "float32" if dtype == "f32" else "float64")
        self.parts = [torch.tensor(p[r.start : r.stop], dtype=kind) for r in RANGES]
        groups = [
            {"params": [part], "lr": lr, "weight_decay": decay}
            for part, (lr, decay) in zip(self.parts, own_numbers(options), strict=True)
        ]
        self.optimizer = getattr(torch.optim, name)(groups, **options)

    def step(self, gradients: list[np.ndarray]) -> None:
        for part, g in zip(self.parts, gradients, strict=True):
            part.grad = self.torch.tensor(g, dtype=part.dtype)
        self.optimizer.step()

    def values(self) -> list[np.ndarray]:
        return [part.detach().numpy() for part in self.parts]


class Loop:
    """A formula over one range in float64, with its moments."""

    formula: Callable[..., np.ndarray]

    def __init__(self, dtype: str, p: np.ndarray, **options: Any) -> None:
        self.parts = [p[r.start : r.stop].astype("f8") for r in RANGES]
        self.numbers = own_numbers(options)
        self.options, self.t = options, 0
        self.m, self.v = ([np.zeros_like(part) for part in self.parts] for _ in range(2))

    def step(self, gradients: list[np.ndarray]) -> None:
        self.t += 1
        for at, g in enumerate(gradients):
            self.parts[at] = self.one(at, self.parts[at], g.astype("f8"), *self.numbers[at])

    def one(self, at: int, p: np.ndarray, g: np.ndarray, lr: float, decay: float) -> np.ndarray:
        raise NotImplementedError

    def values(self) -> list[np.ndarray]:
        return self.parts


class LionLoop(Loop):
    """Algorithm 2 of Chen et al. 2023."""

    def one(self, at: int, p: np.ndarray, g: np.ndarray, lr: float, decay: float) -> np.ndarray:
        c = 0.9 * self.m[at] + 0.1 * g
        self.m[at] = 0.99 * self.m[at] + 0.01 * g
        return p - lr * (np.sign(c) + decay * p)


class LaPropLoop(Loop):
    """Algorithm 1 of Ziyin et al. 2020 with bias correction, and the decay of AdamW."""

    def one(self, at: int, p: np.ndarray, g: np.ndarray, lr: float, decay: float) -> np.ndarray:
        nu, mu, eps = 0.999, 0.9, 1e-20
        self.v[at] = nu * self.v[at] + (1 - nu) * g**2
        scaled = g / (np.sqrt(self.v[at] / (1 - nu**self.t)) + eps)
        self.m[at] = mu * self.m[at] + (1 - mu) * scaled
        return p - lr * (self.m[at] / (1 - mu**self.t) + decay * p)


def own_numbers(options: dict[str, Any]) -> list[tuple[float, float]]:
    """The learning rate and the weight decay of each range."""
    decay = options.pop("weight_decay", 0.0)
    own = [dict(span.numbers) for span in RANGES]
    return [(RATE * n.get("lr_factor", 1.0), n.get("weight_decay", decay)) for n in own]


def theirs(name: str, **options: Any) -> Callable[..., Any]:
    """How an oracle of PyTorch is made."""
    return lambda dtype, p: Theirs(name, dtype, p, **options)


def loop(kind: type[Loop], **options: Any) -> Callable[..., Any]:
    """How one that is a loop is made."""
    return lambda dtype, p: kind(dtype, p, **options)


BETAS = {"beta1": 0.8, "beta2": 0.99}
# By label: an op, its attributes, its oracle.
OPTIMIZERS: dict[str, tuple[str, dict[str, Any], Callable[..., Any]]] = {
    "sgd": ("sgd", {"momentum": 0.9}, theirs("SGD", momentum=0.9, weight_decay=DECAY)),
    "nesterov": (
        "sgd",
        {"momentum": 0.9, "nesterov": True},
        theirs("SGD", momentum=0.9, nesterov=True, weight_decay=DECAY),
    ),
    "adam": ("adam", BETAS, theirs("Adam", betas=(0.8, 0.99), weight_decay=DECAY)),
    "adamw": ("adam", {"decoupled": True}, theirs("AdamW", weight_decay=DECAY)),
    "rmsprop": ("rmsprop", {}, theirs("RMSprop", weight_decay=DECAY)),
    "centered": (
        "rmsprop",
        {"alpha": 0.9, "eps": 1e-3, "momentum": 0.8, "centered": True},
        theirs("RMSprop", alpha=0.9, eps=1e-3, momentum=0.8, centered=True, weight_decay=DECAY),
    ),
    "adagrad": ("adagrad", {"lr_decay": 0.1}, theirs("Adagrad", lr_decay=0.1, weight_decay=DECAY)),
    "lion": ("lion", {}, loop(LionLoop, weight_decay=DECAY)),
    "laprop": ("laprop", {}, loop(LaPropLoop, weight_decay=DECAY)),
}
CASES = {
    (label, dtype): update_case(
        name, SIZE, dtype, {"weight_decay": DECAY, "ranges": RANGES, **attrs}, len(RANGES)
    )
    for label, (name, attrs, _) in OPTIMIZERS.items()
    for dtype in DTYPES
}
STEPPED = Stepped(tuple(CASES.values()))


@needs_compiler
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("label", "dtype"), CASES)
def test_twenty_steps(label: str, dtype: str, target: str) -> None:
    case, kind, random = CASES[label, dtype], DTYPES[dtype], np.random.default_rng(7)
    rule = case.node.op
    assert isinstance(rule, Optimizer)
    p = random.standard_normal(SIZE).astype(kind)
    begun = p.copy()
    oracle = OPTIMIZERS[label][2](dtype, p)
    given = {name: np.zeros(SIZE, kind) for name in rule.moments}
    given |= {"lr": np.asarray(RATE, kind), "ok": np.asarray(True), "clip": FACTORS.astype(kind)}
    for step in range(STEPS):
        g = random.standard_normal(SIZE).astype(kind)
        factors = zip(FACTORS.astype(kind), RANGES, strict=True)
        oracle.step([factor * g[span.start : span.stop] for factor, span in factors])
        made = STEPPED.run(target, case, given | {"p": p, "g": g, "step": np.asarray(step, "i8")})
        p, given = made["p"], given | made
    # Lengths of steps, not of parameters, are what rounding errors are compared with.
    most = {"f32": 2e-6, "f64": 1e-9 * RATE}[dtype]
    for span, expected in zip(RANGES, oracle.values(), strict=True):
        got = p[span.start : span.stop]
        assert np.abs(got - begun[span.start : span.stop]).max() > RATE / 10
        np.testing.assert_allclose(got, expected, rtol=0, atol=most, err_msg=str(span))
    np.testing.assert_array_equal(p[100:128], begun[100:128])


@pytest.mark.parametrize("target", TARGETS)
def test_gradients_that_are_zero_leave_laprop_where_it_is(target: str) -> None:
    case = CASES["laprop", "f32"]
    given = {name: np.zeros(SIZE, np.float32) for name in ("g", "m", "v")}
    given |= {"p": np.ones(SIZE, np.float32), "lr": np.float32(1.0), "step": np.int64(0)}
    given |= {"ok": np.asarray(True), "clip": np.ones(4, np.float32)}
    made = STEPPED.run(target, case, {name: np.asarray(value) for name, value in given.items()})
    np.testing.assert_allclose(made["p"][:96], 0.9, rtol=1e-6)
    assert (made["p"][96:128] == 1).all() and (made["m"] == 0).all() and (made["v"] == 0).all()
    # A gradient whose square is 0 in f32 counts by `eps` alone.
    given["g"] = np.full(SIZE, 1e-23, np.float32)
    made = STEPPED.run(target, case, {name: np.asarray(value) for name, value in given.items()})
    np.testing.assert_allclose(made["m"][:96], 1e-4, rtol=1e-3)


def test_a_variance_below_zero_is_none() -> None:
    """Of a gradient that is always the same, RMSprop's variance rounds to either side of 0."""
    case = CASES["centered", "f32"]
    given = {name: np.zeros(SIZE, np.float32) for name in ("p", "m")}
    g = np.linspace(0.1, 3, SIZE, dtype=np.float32)
    given |= {"g": g, "mean": g, "v": np.nextafter(g * g, 0), "lr": np.asarray(1e-6, "f4")}
    given |= {"step": np.asarray(900), "ok": np.asarray(True), "clip": np.ones(4, np.float32)}
    for target in TARGETS:
        assert np.isfinite(STEPPED.run(target, case, given)["p"]).all(), target
