"""Network types: identity, printing, pickling, and one message for each mistake."""

from __future__ import annotations

import copy
import pickle
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import usage_types
from usage_types import MLP, Affine, Block

import noeira.nn
from noeira.errors import CompositionError, FusionError, OptionError
from noeira.nn import (
    ELU,
    GELU,
    Accuracy,
    Clamp,
    CrossEntropy,
    Fused,
    GELUTanh,
    LeakyReLU,
    Linear,
    LinearGELU,
    LinearReLU,
    Mish,
    Module,
    Parallel,
    Param,
    ReLU,
    Repeat,
    Residual,
    Scale,
    Sequential,
    Sigmoid,
    SiLU,
    Softplus,
    Tanh,
    TopK,
    flag,
    modules,
    number,
    size,
)
from noeira.nn.loss import loss_type
from noeira.nn.metrics import metric_type, metric_types

TYPES = [
    Linear[3, 4],
    Linear[3, 4, False],
    ReLU,
    ReLU[4],
    LeakyReLU.of(slope=0.1),
    LeakyReLU[4, 0.1],
    ELU.of(alpha=0.5),
    Scale.of(multiplier=-2),
    Clamp.of(low=-1, high=0.1),
    Clamp[4, -1.0, 1.0],
    Sequential[LinearReLU[3, 4], Residual[Sequential[Linear[4, 4], Tanh[4]]]],
    Fused[Linear[3, 4], ReLU, Tanh],
    Fused[Linear[3, 4, False], ELU.of(alpha=0.5)],
    LinearGELU[3, 4, False],
    Repeat[3, Residual[LinearReLU[4, 4]]],
    Parallel[Linear[3, 4], ReLU],
    CrossEntropy,
    CrossEntropy.of(smoothing=0.1),
    TopK[5],
    Block[8],
    MLP,
]


class TwoInputs(Module):
    """A layer of two inputs."""

    signature = "(*, D), (*, D) -> (*, D)"


@pytest.mark.parametrize("made", TYPES, ids=repr)
def test_a_type_is_its_text_its_pickle_and_its_copy(made: Any):
    names = {**vars(noeira.nn), "MLP": MLP, "Block": Block}
    assert eval(repr(made), names) is made  # what a type prints evaluates back to it
    assert pickle.loads(pickle.dumps(made)) is made
    assert copy.deepcopy(made) is made
    assert {made: 1}[made] == 1
    assert made.__doc__


def test_one_type_has_one_class():
    assert Linear[3, 4] is Linear[3, 4, True] is Linear.of(3, OUT=4) is Linear.of(IN=3, out=4)
    assert Linear.of(3, 4, bias=False) is Linear[3, 4, False]
    assert Linear[np.int64(3), np.uint8(4)] is Linear[3, 4]
    assert ReLU.of() is ReLU[None] is ReLU
    assert CrossEntropy[0] is CrossEntropy.of(smoothing=0.0) is CrossEntropy
    assert LeakyReLU.of(slope=-0.0) is LeakyReLU.of(slope=0)
    assert Sequential.of(ReLU, Tanh) is Sequential[ReLU, Tanh]
    assert Linear[3, 4] is not Linear[4, 3]


def test_the_shortest_name():
    assert repr(Linear.of(3, 4, bias=True)) == "Linear[3, 4]"
    assert repr(Linear.of(3, 4, bias=False)) == "Linear[3, 4, False]"
    assert repr(LeakyReLU[None, 0.1]) == "LeakyReLU.of(slope=0.1)"
    assert repr(LeakyReLU[4]) == "LeakyReLU[4]"
    assert repr(Clamp[None, 0, 1]) == "Clamp.of(low=0.0, high=1.0)"
    assert repr(MLP) == "MLP"
    assert repr(Sequential[MLP, ReLU]) == "Sequential[MLP, ReLU]"


def test_type_parameters_are_class_attributes():
    assert (Linear[784, 256].IN, Linear[784, 256].OUT, Linear[784, 256].BIAS) == (784, 256, True)
    assert (ReLU.DIM, ReLU[4].DIM, LeakyReLU.SLOPE, LeakyReLU[4, 1].SLOPE) == (None, 4, 0.01, 1.0)
    assert (ReLU, Tanh) == Sequential[ReLU, Tanh].LAYERS
    assert (3, ReLU) == (Repeat[3, ReLU].COUNT, Repeat[3, ReLU].INNER)
    assert repr(Linear.IN) == "<IN: a positive whole number>"


@pytest.mark.parametrize("part", [ReLU, Tanh, Sigmoid, SiLU, GELU, GELUTanh, Mish, ELU])
def test_named_fused_types_are_fused_types(part: Any):
    short = getattr(noeira.nn, f"Linear{part.__name__}")
    assert Fused[Linear[3, 4], part] is short[3, 4]
    assert Fused[Linear[3, 4, False], part] is short.of(3, 4, bias=False)
    assert issubclass(short[3, 4], short) and issubclass(short, Fused)
    assert short[3, 4].parts() == (Linear[3, 4], part)
    assert repr(short[3, 4]) == f"Linear{part.__name__}[3, 4]"


def test_only_the_exact_parts_have_a_short_name():
    class Special(Linear[3, 4]):
        """A child of the layer is not the layer."""

    assert repr(Fused[Linear[3, 4], ReLU[4]]) == "Fused[Linear[3, 4], ReLU[4]]"
    assert repr(Fused[Special, ReLU]) == "Fused[Special, ReLU]"


def test_subclassing_names_a_network():
    assert issubclass(MLP, Sequential)
    assert MLP.__doc__ == "MNIST classifier."
    assert len(MLP.parts()) == 3
    assert pickle.loads(pickle.dumps(Sequential[MLP, Tanh])) is Sequential[MLP, Tanh]


def test_pickles_travel_between_processes():
    made = Sequential[LinearReLU[3, 4], Block[4], Linear[4, 784], MLP]
    code = f"import pickle; print(pickle.loads({pickle.dumps(made)!r}))"
    path = [str(Path(usage_types.__file__).parent), *sys.path]
    command = [sys.executable, "-c", f"import sys; sys.path[:0] = {path!r}; {code}"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert printed.strip() == repr(made)


def test_a_local_class_is_pickled_by_name_only():
    class Local(Linear[3, 4]):
        """Not importable."""

    for made in (Local, Sequential[Local, ReLU]):
        with pytest.raises((pickle.PicklingError, AttributeError), match="Local"):
            pickle.dumps(made)


def test_a_composite_with_parameters_of_its_own():
    assert Block[8].INNER is Sequential[LinearReLU[8, 32], Linear[32, 8]]
    assert list(Block[8].parameters()) == ["0.0.weight", "0.0.bias", "0.1.weight", "0.1.bias"]
    assert repr(Block[8]) == "Block[8]"
    assert Block[8].gives((5, 8)) == (5, 8)
    says(lambda: Block[8, 9], "Block[8, 9]: 2 parameters are too many; write Block[D]")


def says(make: Callable[[], Any], message: str, kind: type[Exception] = CompositionError) -> None:
    """The whole message of an error."""
    with pytest.raises(kind) as found:
        make()
    assert str(found.value) == message
    assert type(found.value) is kind


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
            "there are CrossEntropy, Losses, MSE, SoftCrossEntropy",
        ),
        (
            lambda: loss_type(min),
            "loss must be a loss type such as CrossEntropy, not <built-in function min>",
        ),
        (
            lambda: metric_type(CrossEntropy),
            "metric must be a metric type such as Accuracy; CrossEntropy is none; "
            "there are Accuracy, TopK",
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
        r"  Write Sequential\[Linear\[3, 4\], Linear\[4, 5\]\] for one kernel each, .*",
        str(found.value),
    )
    with pytest.raises(FusionError, match="cannot be one kernel"):
        Fused[ReLU, Linear[3, 4]]
    assert repr(Fused[ReLU, Softplus]) == "Fused[ReLU, Softplus]"


def test_layers_that_do_not_fit():
    says(
        lambda: Sequential[LinearReLU[784, 256], Linear[128, 10]],
        """layers 0 and 1 of Sequential do not fit

    Sequential[LinearReLU[784, 256], Linear[128, 10]]
               ~~~~~~~~~~~~~~~~~~~~  ~~~~~~~~~~~~~~~
               gives (*, 256)        takes (*, 128)

  Change Linear[128, 10] to Linear[256, 10], or LinearReLU[784, 256] to LinearReLU[784, 128].""",
    )


def test_notes_that_would_overlap_take_two_lines():
    says(
        lambda: Sequential[Linear[3, 5], ReLU[5], Linear[4, 2]],
        """layers 1 and 2 of Sequential do not fit

    Sequential[Linear[3, 5], ReLU[5], Linear[4, 2]]
                             ~~~~~~~  ~~~~~~~~~~~~
                             |        takes (*, 4)
                             gives (*, 5)

  Change Linear[4, 2] to Linear[5, 2].""",
    )


def test_a_named_network_is_not_changed():
    says(
        lambda: Sequential[MLP, Tanh, MLP],
        """layers 1 and 2 of Sequential do not fit

    Sequential[MLP, Tanh, MLP]
                    ~~~~  ~~~
                    |     takes (*, 784)
                    gives (*, 10)

  Put Linear[10, 784] between them, or change one of them.""",
    )
    says(
        lambda: Sequential[MLP, Tanh, Block[4], Linear[4, 784], MLP],
        """layers 1 and 2 of Sequential do not fit

    Sequential[MLP, Tanh, Block[4], Linear[4, 784], MLP]
                    ~~~~  ~~~~~~~~
                    |     takes (*, 4)
                    gives (*, 10)

  Change Block[4] to Block[10].""",
    )


def test_a_long_line_is_shortened_around_the_pair():
    wide = [LinearReLU[256, 256]] * 5
    says(
        lambda: Sequential[(LinearReLU[784, 256], *wide, Linear[128, 64], *[ReLU] * 9)],
        """layers 5 and 6 of Sequential do not fit

    Sequential[…, LinearReLU[256, 256], LinearReLU[256, 256], Linear[128, 64], ReLU, ReLU, ReLU, …]
                                        ~~~~~~~~~~~~~~~~~~~~  ~~~~~~~~~~~~~~~
                                        gives (*, 256)        takes (*, 128)

  Change Linear[128, 64] to Linear[256, 64], or LinearReLU[256, 256] to LinearReLU[256, 128].""",
    )


def test_parts_too_long_for_a_line_stand_below_each_other():
    wide = [LinearReLU[256, 256]] * 4
    left, right = (Sequential[(LinearReLU[width, 256], *wide)] for width in (784, 128))
    says(
        lambda: Sequential[Tanh, left, right],
        """layers 1 and 2 of Sequential do not fit

    Sequential[
        …,
        Sequential[LinearReLU[784, 256], LinearReLU[256, 256], …]  gives (*, 256)
        ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
        Sequential[LinearReLU[128, 256], LinearReLU[256, 256], …]  takes (*, 128)
        ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
    ]

  Change LinearReLU[128, 256] to LinearReLU[256, 256], \
or LinearReLU[256, 256] to LinearReLU[256, 128].""",
    )


def test_pictures_are_at_most_100_columns_wide():
    for count in range(1, 40):
        with pytest.raises(CompositionError) as found:
            Sequential[(*[ReLU] * count, Linear[3, 4], Linear[5, 6], *[LeakyReLU[6, 0.5]] * count)]
        lines = str(found.value).splitlines()
        assert max(map(len, lines)) <= 100
        assert lines[3].count("~") == 2 * len("Linear[3, 4]")
        start = lines[3].index("~")
        assert lines[2][start:].startswith("Linear[3, 4], Linear[5, 6]")


def test_ends_that_must_be_equal():
    says(
        lambda: Residual[Linear[3, 4]],
        """Residual adds what its module gives to what it takes: both must have one shape

    Residual[Linear[3, 4]]
             ~~~~~~~~~~~~
             takes (*, 3), gives (*, 4)

  Change Linear[3, 4] to Linear[3, 3], or to Linear[4, 4].""",
    )
    says(
        lambda: Repeat[3, Sequential[Linear[3, 4], ReLU]],
        """Repeat feeds what its module gives to the next copy: it must give the shape it takes

    Repeat[3, Sequential[Linear[3, 4], ReLU]]
              ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
              takes (*, 3), gives (*, 4)

  Change Sequential[Linear[3, 4], ReLU] to Sequential[Linear[4, 4], ReLU].""",
    )


def test_branches_that_do_not_take_the_same():
    says(
        lambda: Parallel[Linear[3, 4], ReLU, Linear[5, 4]],
        """branches 0 and 2 of Parallel do not take the same input

    Parallel[Linear[3, 4], ReLU, Linear[5, 4]]
             ~~~~~~~~~~~~        ~~~~~~~~~~~~
             takes (*, 3)        takes (*, 5)

  Change Linear[5, 4] to Linear[3, 4], or Linear[3, 4] to Linear[5, 4].""",
    )


def author(make: Callable[[], Any]) -> str:
    """The message to someone who writes a module."""
    with pytest.raises((CompositionError, RuntimeError)) as found:
        make()
    return str(found.value.__cause__ or found.value)


def test_mistakes_of_authors_are_found_when_the_class_is_made():
    def lower_case() -> None:
        class Bad(Module):
            width = size()

    def unknown_axis() -> None:
        class Bad(Module):
            IN = size()
            weight = Param("IN", "OUT")

    def unknown_condition() -> None:
        class Bad(Module):
            IN = size()
            weight = Param("IN", init="bias", when="BIAS")

    def late_parameter() -> None:
        class Bad(Linear[3, 4]):
            EXTRA = flag(True)

    def bad_signature() -> None:
        class Bad(Module):
            signature = "(*, IN -> (*)"

    assert "Bad.width: a type parameter is written in capitals: WIDTH" in author(lower_case)
    assert author(unknown_axis) == "Bad.weight: there is no type parameter OUT"
    assert author(unknown_condition) == "Bad.weight: there is no type parameter BIAS"
    assert author(late_parameter) == (
        "Bad: type parameters belong on a child of Linear, not of Linear[…]"
    )
    assert author(bad_signature) == (
        "the signature of Bad: expected ')'\n\n    (*, IN -> (*)\n           ^"
    )
    assert "needs its fans" in author(lambda: Param("OC", "IC", "K"))
    assert "init must be" in author(lambda: Param("IN", "OUT", init="gauss"))


def test_a_module_without_signature_or_trace_says_so():
    class Empty(Module):
        """Nothing."""

    says(Empty.shapes, 'Empty has no signature: write signature = "(*) -> (*)" in the class')
    says(
        lambda: Empty.trace(None),  # type: ignore[arg-type]
        "Empty has no trace: define the classmethod trace(cls, scope, x)",
    )


def test_slots_of_every_kind():
    class Pooled(Module):
        """A module with options of every kind."""

        SIZE = size()
        PADDING = size(0, least=0)
        RATE = number(0.5, low=0.0, high=1.0)
        MEAN = flag(False)
        PARTS = modules()
        signature = "(*) -> (*)"

    made = Pooled[3, 1, 0.25, True, ReLU, Tanh]
    assert (made.SIZE, made.PADDING, made.RATE, made.MEAN) == (3, 1, 0.25, True)
    assert (ReLU, Tanh) == made.PARTS
    assert repr(made) == "Pooled[3, 1, 0.25, True, ReLU, Tanh]"
    says(
        lambda: Pooled[3, -1, 0.25, True, ReLU],
        "Pooled[3, -1, 0.25, True, ReLU]: padding must be a whole number of at least 0, not -1",
    )


def test_a_number_above_a_bound():
    class Bounded(Module):
        EPS = number(1e-5, above=0.0)
        KEEP = number(0.5, above=0.0, high=1.0)
        SCALE = number(1.0, high=2.0)
        signature = "(*) -> (*)"

    assert (Bounded[1e-9].EPS, Bounded.of(keep=1).KEEP) == (1e-9, 1.0)
    says(
        lambda: Bounded.of(eps=0),
        "Bounded.of(eps=0): eps must be a number greater than 0, not 0.0",
    )
    says(
        lambda: Bounded.of(keep=1.5),
        "Bounded.of(keep=1.5): keep must be a number greater than 0 and at most 1, not 1.5",
    )
    says(
        lambda: Bounded.of(scale=3),
        "Bounded.of(scale=3): scale must be a number of at most 2, not 3.0",
    )
    says(
        lambda: number(low=0.0, above=0.0),
        "number: low=0 allows 0, above=0 does not allow 0; give one of the two",
    )


def test_metrics_in_a_list():
    assert metric_types([Accuracy, TopK[2]()]) == (Accuracy, TopK[2])
    assert metric_types(m for m in (TopK[5],)) == (TopK[5],)
    assert metric_types(()) == ()


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("Relu", "; did you mean ReLU?"),
        ("linear", "; did you mean Linear?"),
        ("MSELoss", "; did you mean MSE?"),
        ("LayerNorm", " yet; a layer of your own is a class, see help(noeira.nn.Module)"),
        ("Conv2D", " yet; a layer of your own is a class, see help(noeira.nn.Module)"),
        ("MultiHeadAttention", " yet; a layer of your own is a class, see help(noeira.nn.Module)"),
        ("Quux", "; print(noeira.nn.__all__) shows what there is"),
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


def test_submodules_are_imported_as_ever():
    code = "from noeira import training, datasets; print(training.__name__, datasets.__name__)"
    printed = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout
    assert printed.split() == ["noeira.training", "noeira.datasets"]


def test_own_layers_are_types_like_any_other():
    assert repr(Affine[4]) == "Affine[4]"
    assert Affine.of(4, shift=False) is Affine[4, False]
    assert list(Affine[4].parameters()) == ["gain", "shift"]
    assert list(Affine[4, False].parameters()) == ["gain"]
    assert list(Sequential[ReLU, Affine[4]].states()) == ["1.calls"]
