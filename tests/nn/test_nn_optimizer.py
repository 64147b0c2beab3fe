"""Optimizers: their options, and one message for each value out of range."""

from __future__ import annotations

import copy
import pickle
from dataclasses import fields
from typing import Any

import pytest

from noeira.errors import OptionError, VerifyError
from noeira.ir.op import OPS
from noeira.nn import SGD, Adagrad, Adam, AdamW, LaProp, Lion, ReLU, RMSprop
from noeira.nn.optimizer import optimizer
from noeira.passes.update import ApplyOptimizer

KINDS = (SGD, Adagrad, Adam, AdamW, LaProp, Lion, RMSprop)


def test_options_are_every_field_but_the_learning_rate():
    assert SGD().options() == {
        "momentum": 0.0,
        "dampening": 0.0,
        "nesterov": False,
        "weight_decay": 0.0,
    }
    adam = {"beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "weight_decay": 0.0, "decoupled": False}
    assert Adam().options() == adam
    assert AdamW().options() == {**adam, "weight_decay": 0.01, "decoupled": True}


def test_defaults_and_ops():
    assert (SGD().lr, Adam().lr, AdamW().lr) == (1e-2, 1e-3, 1e-3)
    assert (SGD.op, Adam.op, AdamW.op) == ("sgd", "adam", "adam")
    # As in PyTorch; those of Lion and LaProp as their authors, or those of DreamerV3, have them.
    assert RMSprop() == RMSprop(1e-2, 0.99, 1e-8, 0.0, False, 0.0)
    assert Adagrad() == Adagrad(1e-2, lr_decay=0.0, eps=1e-10, weight_decay=0.0)
    assert Lion() == Lion(1e-4, beta1=0.9, beta2=0.99, weight_decay=0.0)
    assert LaProp() == LaProp(4e-5, beta1=0.9, beta2=0.999, eps=1e-20, weight_decay=0.0)
    assert Adam(1e-2).lr == 1e-2
    assert Adam(lr=1) == Adam(lr=1.0) and isinstance(Adam(lr=1).lr, float)
    assert {Adam(): 1}[Adam()] == 1
    assert copy.deepcopy(AdamW(1e-2)) == pickle.loads(pickle.dumps(AdamW(1e-2))) == AdamW(1e-2)


def test_how_an_optimizer_is_given():
    assert optimizer(Adam) == optimizer(Adam()) == Adam()
    assert optimizer(SGD(momentum=0.9)) == SGD(momentum=0.9)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Adam(lr=-1), "Adam: lr must be 0 or greater, not -1.0"),
        (lambda: Adam(lr=float("nan")), "Adam: lr must be a finite number, not nan"),
        (lambda: SGD(lr=True), "SGD: lr must be a finite number, not True"),
        (lambda: AdamW(beta1=1), "AdamW: beta1 must be at least 0 and less than 1, not 1.0"),
        (lambda: Adam(beta2=-0.1), "Adam: beta2 must be at least 0 and less than 1, not -0.1"),
        (lambda: Adam(eps=-1e-8), "Adam: eps must be 0 or greater, not -1e-08"),
        (lambda: AdamW(weight_decay=-1), "AdamW: weight_decay must be 0 or greater, not -1.0"),
        (lambda: SGD(momentum=-0.9), "SGD: momentum must be at least 0 and less than 1, not -0.9"),
        (
            lambda: SGD(momentum=2),
            "SGD: momentum must be at least 0 and less than 1, not 2.0",
        ),
        (lambda: SGD(dampening=0.1), "SGD: dampening needs momentum greater than 0"),
        (lambda: SGD(nesterov=1), "SGD: nesterov must be True or False, not 1"),  # type: ignore[arg-type]
        (
            lambda: SGD(nesterov=True),
            "SGD: nesterov needs momentum greater than 0 and dampening 0",
        ),
        (
            lambda: SGD(momentum=0.9, dampening=0.1, nesterov=True),
            "SGD: nesterov needs momentum greater than 0 and dampening 0",
        ),
        (
            lambda: RMSprop(alpha=1),
            "RMSprop: alpha must be at least 0 and less than 1, not 1.0",
        ),
        (lambda: RMSprop(centered=1), "RMSprop: centered must be True or False, not 1"),  # type: ignore[arg-type]
        (lambda: Adagrad(lr_decay=-1), "Adagrad: lr_decay must be 0 or greater, not -1.0"),
        (lambda: Lion(beta2=1), "Lion: beta2 must be at least 0 and less than 1, not 1.0"),
        (lambda: LaProp(eps=-1), "LaProp: eps must be 0 or greater, not -1.0"),
        (
            lambda: Adam(learning_rate=1),  # type: ignore[call-arg]
            "Adam has no option learning_rate; it has lr, beta1, beta2, eps, weight_decay, "
            "decoupled; did you mean lr?",
        ),
        (
            lambda: AdamW(betas=(0.9, 0.99)),  # type: ignore[call-arg]
            "AdamW has no option betas; it has lr, beta1, beta2, eps, weight_decay, decoupled; "
            "did you mean beta1 or beta2?",
        ),
        (
            lambda: SGD(rho=1),  # type: ignore[call-arg]
            "SGD has no option rho; it has lr, momentum, dampening, nesterov, weight_decay",
        ),
        (
            lambda: SGD([], lr=1e-3),  # type: ignore[arg-type]
            "SGD: lr is given twice, by its place and by its name; "
            "an optimizer is given options only, no parameters",
        ),
        (
            lambda: SGD(1, 2, 3, False, 5, 6),  # type: ignore[call-arg]
            "SGD: 6 options are too many; it has lr, momentum, dampening, nesterov, weight_decay",
        ),
        (
            lambda: optimizer("adam"),
            "optimizer must be one such as Adam(lr=1e-3), not 'adam': write optimizer=Adam; "
            "there are SGD, Adagrad, Adam, AdamW, LaProp, Lion, RMSprop",
        ),
        (
            lambda: optimizer(ReLU),
            "optimizer must be one such as Adam(lr=1e-3), not ReLU; "
            "there are SGD, Adagrad, Adam, AdamW, LaProp, Lion, RMSprop",
        ),
    ],
)
def test_one_message_for_each_mistake(make: Any, message: str):
    with pytest.raises(OptionError) as found:
        make()
    assert str(found.value) == message


@pytest.mark.parametrize(
    ("op", "options", "message"),
    [
        ("adam", {"beta1": 2.0}, "Adam: beta1 must be at least 0 and less than 1, not 2.0"),
        ("sgd", {"momentum": -1.0}, "SGD: momentum must be at least 0 and less than 1, not -1.0"),
        ("sgd", {"nesterov": True}, "SGD: nesterov needs momentum greater than 0"),
    ],
)
def test_a_graph_has_the_same_bounds(op: str, options: dict[str, Any], message: str):
    with pytest.raises(VerifyError, match=message):
        ApplyOptimizer(op, options=tuple(options.items())).moments()


def test_the_options_of_an_op_are_those_of_the_optimizer():
    for kind in KINDS:
        names = [f.name for f in fields(OPS[kind.op].Attrs)]
        assert names == [*kind().options(), "lr_factor", "ranges"]
        assert list(kind().options()) == [f.name for f in fields(kind)][1:]
