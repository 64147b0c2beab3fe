"""The options of a compile: one list, one order and one set of checks for all that take them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import fields
from typing import Any

import numpy as np
import pytest

import noeira
from noeira.job import job_of
from noeira.nn import (
    MSE,
    SGD,
    Accuracy,
    Adam,
    CrossEntropy,
    Linear,
    LinearReLU,
    Normal,
    ReLU,
    Sequential,
    Xavier,
)
from noeira.options import (
    CompileOptions,
    GraphOptions,
    Options,
    TraceOptions,
    names_of,
    options_of,
    training,
)


class Net(Sequential[LinearReLU[4, 3], Linear[3, 2]]):
    """Two layers."""


def test_the_options_are_listed_once_in_one_order() -> None:
    names = [field.name for field in fields(Options)]
    assert names_of(CompileOptions) == names
    assert names_of(GraphOptions) == names[:-3]
    of_step = ("optimizer", "schedule", "clip", "groups", "accumulate", "ema", "fold")
    assert names_of(TraceOptions) == [name for name in names[:-3] if name not in of_step]
    for function in (noeira.compile, noeira.Trainer, job_of):
        parameters = inspect.signature(function).parameters
        shown = [name for name in parameters if name in names]
        assert shown == names
        assert all(parameters[name].kind is inspect.Parameter.KEYWORD_ONLY for name in names)


def test_help_shows_the_defaults() -> None:
    own = inspect.signature(noeira.compile).parameters
    assert (own["loss"].default, own["optimizer"].default, own["batch"].default) == (None, None, 1)
    shown = inspect.signature(noeira.Trainer).parameters
    assert shown["loss"].default is CrossEntropy and shown["batch"].default == 100
    assert shown["optimizer"].default == Adam()


def test_options_are_kept_in_one_form() -> None:
    kind, found = options_of(Net, {"loss": CrossEntropy, "optimizer": SGD, "batch": 3}, "compile")
    assert kind is Net
    assert (found.loss, found.optimizer, found.batch) == (CrossEntropy, SGD(), 3)
    assert found.metrics == (Accuracy,) and found.metric_names == ("accuracy",)
    _, found = options_of(Net, {"loss": MSE, "init": Normal[0.0, 1.0]}, "compile")
    assert found.metrics == () and found.init == Normal[0.0, 1.0]
    _, found = options_of(Net(dtype="f64"), {"loss": CrossEntropy, "metrics": []}, "compile")
    assert found.metrics == () and found.dtype == "f64"


def test_a_trace_takes_what_a_compile_takes() -> None:
    graph = noeira.trace(Net(dtype="f64"), loss=CrossEntropy(), batch=3)
    assert graph == noeira.trace(Net, loss=CrossEntropy, batch=np.int64(3), dtype="f64")  # type: ignore[arg-type]
    assert [v.name for v in graph.outputs] == ["loss"]


def test_reports_and_trainers_have_the_defaults_of_training() -> None:
    assert training({}) == {"loss": CrossEntropy, "batch": 100, "optimizer": Adam()}
    assert training({"loss": None, "batch": 3}) == {"loss": None, "batch": 3}
    assert str(noeira.explain(Net)).startswith("@net.step ")
    assert str(noeira.explain(Net, loss=None)).startswith("@net.forward ")
    assert noeira.summary(Net).batch == 100


def test_a_trainer_can_be_given_the_shape_of_a_sample() -> None:
    trainer = noeira.Trainer(Sequential[Linear[4, 3], ReLU], input=(2, 4), loss=MSE)
    assert trainer.options["input"] == (2, 4)
    with pytest.raises(noeira.ShapeError, match=r"takes \(\*, 4\), not \(5,\)"):
        noeira.Trainer(Net, input=(5,))


def training_program() -> noeira.Program:
    """A program that has a learning rate."""
    return noeira.compile(Net, loss=CrossEntropy, optimizer=Adam, target="reference")


WRONG: list[tuple[Callable[[], Any], str]] = [
    (
        lambda: noeira.compile(Net, bach=3),  # type: ignore[call-arg]
        "compile has no option bach; it has loss, optimizer, schedule, clip, groups, accumulate, "
        "ema, fold, batch, input, init, dtype, metrics, seed, target, choices; did you mean batch?",
    ),
    (
        lambda: noeira.suggest(Net, target="cuda"),  # type: ignore[call-arg]
        "suggest has no option target; it has loss, optimizer, schedule, clip, groups, accumulate, "
        "ema, fold, batch, input, init, dtype, metrics, entry",
    ),
    (
        lambda: noeira.trace(Net, optimizer=Adam),  # type: ignore[call-arg]
        "trace has no option optimizer; it has loss, batch, input, init, dtype, metrics",
    ),
    (
        lambda: noeira.trace(Net, batch=-1),
        "batch must be a whole number of at least 1, not -1",
    ),
    (lambda: noeira.trace(Net, dtype="f16"), "parameters are kept in f32 or f64, not 'f16'"),  # type: ignore[arg-type]
    (lambda: noeira.trace(Net, phase="test"), "phase must be 'train' or 'eval', not 'test'"),  # type: ignore[arg-type]
    (
        lambda: noeira.trace(Net, loss=ReLU),  # type: ignore[arg-type]
        "loss must be a loss type such as CrossEntropy; ReLU is none",
    ),
    (
        lambda: noeira.trace(Net, loss=CrossEntropy, metrics=Accuracy),  # type: ignore[arg-type]
        "metrics is a list: write [Accuracy]",
    ),
    (
        lambda: noeira.compile(Net, dtype="float32"),  # type: ignore[arg-type]
        "parameters are kept in f32 or f64, not 'float32': write dtype='f32'",
    ),
    (
        lambda: noeira.compile(Net, init="xavier"),  # type: ignore[arg-type]
        "init must be an initialiser such as Kaiming, not 'xavier': write init=Xavier; there are "
        "Deterministic, Kaiming, KaimingNormal, Normal, ScaledKaiming, TruncNormalIn, Xavier, Zero",
    ),
    (
        lambda: noeira.compile(Net, loss=CrossEntropy, metrics=["a"]),  # type: ignore[list-item]
        "metric: write the type, such as Accuracy, not the text 'a'",
    ),
    (
        lambda: noeira.compile(Net, metrics=[Accuracy]),
        "metrics need a loss, whose targets they read: loss=…, metrics=…",
    ),
    (
        lambda: noeira.compile(Net(), init=Xavier),
        "init has no effect on an instance, which has its values: write Net(init=…)",
    ),
    (
        lambda: noeira.compile(Net(), dtype="f64"),
        "the instance's parameters are f32, not f64: write Net(dtype='f64')",
    ),
    (
        lambda: noeira.compile(Net(dtype="f64"), dtype="f32"),
        "the instance's parameters are f64, not f32: write Net(dtype='f32')",
    ),
    (lambda: noeira.compile(Net, optimizer=Adam), "an optimizer needs a loss: loss=CrossEntropy, "),
    (
        lambda: noeira.explain(Net, loss=None, optimizer=Adam),
        "an optimizer needs a loss: loss=CrossEntropy, optimizer=…",
    ),
    (
        lambda: noeira.explain(noeira.compile(Net), batch=3),
        "a program's options are those that it was compiled with; explain takes batch",
    ),
    (
        lambda: noeira.Trainer(Net, optimizer="adam"),  # type: ignore[arg-type]
        "optimizer must be one such as Adam(lr=1e-3), not 'adam': write optimizer=Adam; there are "
        "SGD, Adagrad, Adam, AdamW, LaProp, Lion, RMSprop",
    ),
    (
        lambda: noeira.compile(Net, batch=np.array([2, 3])),  # type: ignore[arg-type]
        "batch must be a whole number of at least 1, not array([2, 3])",
    ),
    (
        lambda: noeira.compile(Net, seed=np.array([2, 3])),  # type: ignore[arg-type]
        "seed must be a whole number from 0 to 4294967295, not array([2, 3])",
    ),
    (
        lambda: noeira.compile(Net, target=["cpu"]),  # type: ignore[arg-type]
        "there is no target ['cpu']; there are cpu, cuda, ",
    ),
    (
        lambda: noeira.compile(Net, dtype=np.ones(2)),  # type: ignore[arg-type]
        "parameters are kept in f32 or f64, not array([1., 1.])",
    ),
    (
        lambda: noeira.compile(Net, choices=["a"]),  # type: ignore[arg-type]
        "choices must be a table of choices or its file, not ['a']",
    ),
    (
        lambda: Adam(lr=np.ones(2)),  # type: ignore[arg-type]
        "Adam: lr must be a finite number, not array([1., 1.])",
    ),
    (
        lambda: setattr(training_program(), "lr", None),
        "lr must be a finite number, 0 or greater, not None",
    ),
    (
        lambda: setattr(training_program(), "lr", np.ones(2)),
        "lr must be a finite number, 0 or greater, not array([1., 1.])",
    ),
    (lambda: noeira.Trainer(Net, optimizer=None), "Trainer needs a loss and an optimizer"),
    (lambda: noeira.Trainer(ReLU), "ReLU has no parameters, so there is nothing to train"),
    (
        lambda: noeira.Trainer(Net, target="gpu"),
        "there is no target 'gpu'; there are cpu, cuda, cuda-cpu, reference",
    ),
]


@pytest.mark.parametrize(("make", "message"), WRONG, ids=[w[1][:40] for w in WRONG])
def test_one_message_for_each_mistake(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(noeira.OptionError) as caught:
        make()
    assert str(caught.value).startswith(message)
