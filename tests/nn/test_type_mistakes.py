"""One message for each mistake in a network type, in its user's notation."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from says import says
from usage_types import MLP

import noeira
import noeira.nn
from noeira.errors import CompositionError, FusionError, OptionError
from noeira.nn import (
    ELU,
    GELU,
    Accuracy,
    Clamp,
    CrossEntropy,
    Fused,
    LeakyReLU,
    Linear,
    LinearReLU,
    Module,
    Parallel,
    ReLU,
    Repeat,
    Residual,
    Scale,
    Sequential,
    Softplus,
    Tanh,
    TopK,
    size,
)
from noeira.nn.losses.base import loss_type
from noeira.nn.metrics import metric_type, metric_types
from noeira.report.vocabulary import vocabulary


class TwoInputs(Module):
    """A layer of two inputs."""

    signature = "(*, D), (*, D) -> (*, D)"


def names_of(kind: str) -> list[str]:
    """The types of a kind that `noeira list` has."""
    return sorted(word.name for word in vocabulary() if word.kind == kind)


LINEAR = "write Linear[IN, OUT] or Linear.of(IN, OUT, bias=…)"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: Sequential[Linear[3, 4](), ReLU],
            "Sequential[Linear[3, 4](), ReLU]: layer 0 must be a type: "
            "write Linear[3, 4], not Linear[3, 4]()",
        ),
        (
            lambda: Sequential[ReLU, Linear],
            f"Sequential[ReLU, Linear]: layer 1: Linear needs its parameters: {LINEAR}",
        ),
        (
            lambda: Sequential[Clamp, ReLU],
            "Sequential[Clamp, ReLU]: layer 0: Clamp needs its parameters: "
            "write Clamp.of(low=…, high=…)",
        ),
        (
            lambda: Sequential[Sequential, ReLU],
            "Sequential[Sequential, ReLU]: layer 0: Sequential needs its parameters: "
            "write Sequential[A, B, …]",
        ),
        (
            lambda: Sequential[()],
            "Sequential[()] is empty: write Sequential[A, B, …] with at least one module type",
        ),
        (
            lambda: Sequential[[ReLU, Tanh]],
            "Sequential[[ReLU, Tanh]]: layer 0 is a list; "
            "write the layers one after the other, separated by commas",
        ),
        (
            lambda: Sequential[3, ReLU],
            "Sequential[3, ReLU]: layer 0 must be a module type, not 3",
        ),
        (
            lambda: Sequential["ReLU", Tanh],
            "Sequential['ReLU', Tanh]: layer 0 must be a module type: write ReLU without quotes",
        ),
        (
            lambda: Sequential[ReLU, int],
            "Sequential[ReLU, int]: layer 1 must be a module type; int is a class, but no Module",
        ),
        (
            lambda: Sequential[Module, ReLU],
            "Sequential[Module, ReLU]: layer 0 must be a layer; "
            "Module is the parent of all of them",
        ),
        (
            lambda: Sequential[ReLU, CrossEntropy],
            "Sequential[ReLU, CrossEntropy]: layer 1: CrossEntropy is a loss: "
            "it takes a prediction and a target, and is given to training, not to the network",
        ),
        (
            lambda: Sequential[Accuracy, ReLU],
            "Sequential[Accuracy, ReLU]: layer 0: Accuracy is a metric: it takes a prediction "
            "and a target, and is given to training, not to the network",
        ),
        (
            lambda: Sequential[ReLU, TwoInputs],
            "layer 1 of Sequential: TwoInputs takes 2 values, (*, D), (*, D); "
            "in Sequential a layer takes one",
        ),
        (lambda: Sequential(), "Sequential needs its parameters: write Sequential[A, B, …]"),
        (lambda: Linear(), f"Linear needs its parameters: {LINEAR}"),
        (
            lambda: Linear(3, 4),  # type: ignore[call-arg]
            "type parameters go in brackets: write Linear[3, 4](), not Linear(3, 4)",
        ),
        (
            lambda: Linear(3),  # type: ignore[call-arg]
            f"type parameters go in brackets: Linear[3]: OUT is missing; {LINEAR}",
        ),
        (
            lambda: Linear(3, 4, bias=False),  # type: ignore[call-arg]
            "type parameters go in .of(…): write Linear.of(3, 4, bias=False)(), "
            "not Linear(3, 4, bias=False)",
        ),
        (
            lambda: CrossEntropy(smoothing=0.1),  # type: ignore[call-arg]
            "type parameters go in .of(…): write CrossEntropy.of(smoothing=0.1), "
            "not CrossEntropy(smoothing=0.1)",
        ),
        (
            lambda: CrossEntropy(smoothing=2),  # type: ignore[call-arg]
            "type parameters go in .of(…): CrossEntropy.of(smoothing=2): "
            "smoothing must be a number from 0 to 1, not 2.0",
        ),
        (
            lambda: TopK(5),  # type: ignore[call-arg]
            "type parameters go in brackets: write TopK[5], not TopK(5)",
        ),
        (
            lambda: TopK(0),  # type: ignore[call-arg]
            "type parameters go in brackets: TopK[0]: K must be a positive whole number, not 0",
        ),
        (
            lambda: Accuracy(1),  # type: ignore[call-arg]
            "Accuracy takes no parameters: write Accuracy",
        ),
        (
            lambda: ReLU(np.ones(3)),  # type: ignore[call-arg]
            "ReLU() makes an instance and takes init, seed, dtype, by name; "
            "to run a network on arrays write noeira.compile(ReLU).forward(x)",
        ),
        (
            lambda: MLP(sed=1),  # type: ignore[call-arg]
            "MLP() takes init, seed, dtype, not sed",
        ),
        (lambda: Linear.parameters(), f"Linear needs its parameters: {LINEAR}"),
        (
            lambda: LinearReLU.gives((3,)),
            "LinearReLU needs its parameters: "
            "write LinearReLU[IN, OUT] or LinearReLU.of(IN, OUT, bias=…)",
        ),
        (
            lambda: Linear[3, 4.0],
            "Linear[3, 4.0]: OUT must be a positive whole number, not 4.0; write 4",
        ),
        (lambda: Linear[3, 4.5], "Linear[3, 4.5]: OUT must be a positive whole number, not 4.5"),
        (lambda: Linear[3, True], "Linear[3, True]: OUT must be a positive whole number, not True"),
        (lambda: Linear[3, -1], "Linear[3, -1]: OUT must be a positive whole number, not -1"),
        (lambda: Linear[0, 4], "Linear[0, 4]: IN must be a positive whole number, not 0"),
        (
            lambda: Linear["3", 4],
            "Linear['3', 4]: IN must be a positive whole number, not '3'; write 3, without quotes",
        ),
        (
            lambda: Linear[None, 4],
            "Linear[None, 4]: IN must be a positive whole number, not None",
        ),
        (
            lambda: Linear[LinearReLU, 4],
            "Linear[LinearReLU, 4]: IN must be a positive whole number, "
            "not the module type LinearReLU",
        ),
        (
            lambda: Linear[int, 4],
            "Linear[int, 4]: IN must be a positive whole number, not the class int",
        ),
        (lambda: Linear[3], f"Linear[3]: OUT is missing; {LINEAR}"),
        (lambda: Linear.of(), f"Linear: IN and OUT are missing; {LINEAR}"),
        (lambda: Linear[3, 4, 5], "Linear[3, 4, 5]: bias must be True or False, not 5"),
        (
            lambda: Linear[3, 4, True, 5],
            f"Linear[3, 4, True, 5]: 4 parameters are too many; {LINEAR}",
        ),
        (
            lambda: Linear[3, 4][5, 6],
            f"Linear[3, 4] has its parameters already; {LINEAR} with one pair of brackets",
        ),
        (lambda: MLP[3], "MLP is complete and takes no parameters: write MLP"),
        (lambda: Accuracy[3], "Accuracy takes no parameters: write Accuracy"),
        (
            lambda: Linear.of(3, 4, biass=False),
            "Linear has no parameter 'biass'; it has IN, OUT, bias; did you mean bias?",
        ),
        (lambda: Linear.of(3, 4, z=0), "Linear has no parameter 'z'; it has IN, OUT, bias"),
        (lambda: Linear.of(3, IN=4), "Linear.of(3, IN=4): IN is given twice"),
        (lambda: ReLU[2.5], "ReLU[2.5]: DIM must be a positive whole number or None, not 2.5"),
        (
            lambda: LeakyReLU[0.1],
            "LeakyReLU[0.1]: DIM comes first; write LeakyReLU.of(slope=0.1)",
        ),
        (
            lambda: LeakyReLU[4, float("nan")],
            "LeakyReLU[4, nan]: slope must be a finite number, not nan",
        ),
        (
            lambda: ELU.of(alpha=-1),
            "ELU.of(alpha=-1): alpha must be a number of at least 0, not -1.0",
        ),
        (
            lambda: CrossEntropy.of(smoothing=2),
            "CrossEntropy.of(smoothing=2): smoothing must be a number from 0 to 1, not 2.0",
        ),
        (
            lambda: Clamp.of(low=1, high=0),
            "Clamp.of(low=1.0, high=0.0): low must not be above high",
        ),
        (lambda: Scale.of(), "Scale: multiplier is missing; write Scale.of(multiplier=…)"),
        (lambda: Residual[3], "Residual[3]: the module must be a module type, not 3"),
        (
            lambda: Residual[ReLU, Tanh],
            "Residual[ReLU, Tanh]: Residual has one module; write Residual[Sequential[ReLU, Tanh]]",
        ),
        (
            lambda: Repeat[Linear[4, 4], 3],
            "Repeat[Linear[4, 4], 3]: the count comes first: write Repeat[3, Linear[4, 4]]",
        ),
        (lambda: Repeat[3], "Repeat[3]: M is missing; write Repeat[N, M]"),
        (lambda: Repeat[0, ReLU], "Repeat[0, ReLU]: COUNT must be a positive whole number, not 0"),
        (
            lambda: Repeat[3, ReLU, Tanh],
            "Repeat[3, ReLU, Tanh]: Repeat has one module; write Repeat[3, Sequential[ReLU, Tanh]]",
        ),
        (lambda: Parallel[ReLU], "Parallel[ReLU] has one branch only: write ReLU"),
        (
            lambda: MLP().parameter("0.wait"),
            "MLP has no parameter '0.wait'; it has 0.weight, 0.bias, 1.0.0.weight, 1.0.0.bias, "
            "1.1.0.weight, 1.1.0.bias, 2.weight, 2.bias",
        ),
        (
            lambda: loss_type("cross_entropy"),
            "loss: write the type, such as CrossEntropy, not the text 'cross_entropy'",
        ),
        (
            lambda: loss_type(ReLU),
            "loss must be a loss type such as CrossEntropy; ReLU is none; "
            f"there are {', '.join(names_of('losses'))}",
        ),
        (
            lambda: loss_type(min),
            "loss must be a loss type such as CrossEntropy, not <built-in function min>",
        ),
        (
            lambda: metric_type(CrossEntropy),
            "metric must be a metric type such as Accuracy; CrossEntropy is none; "
            f"there are {', '.join(names_of('metrics'))}",
        ),
        (
            lambda: metric_types("accuracy"),
            "metrics is a list of metric types such as [Accuracy], not the text 'accuracy'",
        ),
        (
            lambda: metric_types(3),
            "metrics is a list of metric types such as [Accuracy], not 3",
        ),
        (lambda: metric_types(TopK[2]), "metrics is a list: write [TopK[2]]"),
        (lambda: metric_types(Accuracy()), "metrics is a list: write [Accuracy]"),
        (
            lambda: metric_types(["accuracy"]),
            "metric: write the type, such as Accuracy, not the text 'accuracy'",
        ),
        (lambda: metric_type(TopK), "metric: TopK needs its parameters: write TopK[K]"),
    ],
)
def test_one_message_for_each_mistake(make: Callable[[], Any], message: str):
    option = message.startswith(("loss", "metric")) and "needs its parameters" not in message
    says(make, message, OptionError if option else CompositionError)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: Fused[Linear[3, 4]],
            "Fused[Linear[3, 4]]: there is nothing to fuse Linear[3, 4] with; write Linear[3, 4]",
        ),
        (
            lambda: Fused[LinearReLU[3, 4], GELU],
            "Fused[LinearReLU[3, 4], GELU]: LinearReLU[3, 4] is a kernel already; "
            "write Fused[Linear[3, 4], ReLU, GELU]",
        ),
        (
            lambda: Fused[Linear[3, 4], LinearReLU[4, 4]],
            "Fused[Linear[3, 4], LinearReLU[4, 4]]: LinearReLU[4, 4] is a kernel already; "
            "write Sequential[Linear[3, 4], LinearReLU[4, 4]]",
        ),
        (
            lambda: Fused[Sequential[LinearReLU[3, 4]], Tanh],
            "LinearReLU[3, 4] is inside another fused type: a kernel has no kernels inside",
        ),
    ],
)
def test_one_message_for_each_mistake_in_fusing(make: Callable[[], Any], message: str):
    says(make, message, FusionError)


def test_what_cannot_be_one_kernel_is_known_at_import():
    with pytest.raises(FusionError) as found:
        Fused[Linear[3, 4], Linear[4, 5]]
    assert re.fullmatch(
        r"Fused\[Linear\[3, 4\], Linear\[4, 5\]\] cannot be one kernel: .*linear.*\n\n"
        r"  Write Sequential\[Linear\[3, 4\], Linear\[4, 5\]\] for one kernel each\.",
        str(found.value),
    )
    with pytest.raises(FusionError, match="cannot be one kernel"):
        Fused[ReLU, Linear[3, 4]]
    assert repr(Fused[ReLU, Softplus]) == "Fused[ReLU, Softplus]"


def test_metrics_in_a_list():
    assert metric_types([Accuracy, TopK[2]()]) == (Accuracy, TopK[2])
    assert metric_types(m for m in (TopK[5],)) == (TopK[5],)
    assert metric_types(()) == ()


NOT_YET = ": it is not there yet; docs/adding-an-op.md shows how one writes a layer"
OWN = (
    "; print(noeira.nn.__all__) shows what there is, and a layer of your own is a class, "
    "see help(noeira.nn.Module)"
)


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("Relu", "; did you mean ReLU?"),
        ("linear", "; did you mean Linear?"),
        ("MSELoss", "; did you mean MSE?"),
        ("Embedding", NOT_YET),
        ("BatchNorm1d", ": write BatchNorm1D"),
        ("Conv2d", ": write Conv2D[3, 64, 3]"),
        ("ConvTranspose2d", ": write Conv2DTranspose[64, 32, 4]"),
        ("AvgPool3d", ": write AvgPool3D[2]"),
        ("Quux", OWN),
    ],
)
def test_names_that_there_are_not(name: str, advice: str):
    message = f"there is no {name} in noeira.nn{advice}"
    with pytest.raises(ImportError) as imported:
        exec(f"from noeira.nn import {name}")
    with pytest.raises(AttributeError) as found:
        getattr(noeira.nn, name)
    assert str(imported.value) == str(found.value) == message
    assert not hasattr(noeira.nn, name)


def test_a_name_that_only_an_output_has():
    class Misspelt(Module):
        IN, OUT = size(), size()
        signature = "(*, IN) -> (*, OUTT)"

    message = "OUTT of (OUTT) can be anything; no type parameter is called so, and no input has it"
    with pytest.raises(CompositionError, match=re.escape(f"{message}; did you mean OUT?")):
        noeira.compile(Misspelt[3, 4])


def test_an_output_may_be_decided_by_what_follows():
    class Open(Module):
        signature = "(D) -> (N)"

    assert str(Sequential[Open, Linear[2, 3]].shapes()) == "(D) -> (3)"
