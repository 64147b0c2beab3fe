"""Network types: identity, printing, pickling, and one message for each mistake."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import usage_types
from says import says
from usage_types import MLP, Block

import noeira.nn
from noeira.nn import (
    ELU,
    GELU,
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
    ReLU,
    Repeat,
    Residual,
    Scale,
    Sequential,
    Sigmoid,
    SiLU,
    Tanh,
    TopK,
    flag,
    module,
    modules,
    number,
    size,
)

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
    assert repr(Linear.of(3, 4, bias=False)) == "Linear.of(3, 4, bias=False)"
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


def test_options_are_printed_by_name():
    class Strided(Module):
        """Options, and what must be given after them."""

        DIM = size(None)
        STRIDE = size(1)
        MEAN = flag(False)
        PART = module()
        signature = "(*) -> (*)"

    texts = {
        Strided[8, 2, True, ReLU]: "Strided.of(8, stride=2, mean=True, part=ReLU)",
        Strided[8, 1, False, ReLU]: "Strided.of(8, part=ReLU)",
        Strided[None, 1, False, ReLU]: "Strided.of(part=ReLU)",
        Linear[3, 4, False]: "Linear.of(3, 4, bias=False)",
        LeakyReLU[4, 0.1]: "LeakyReLU.of(4, slope=0.1)",
        CrossEntropy[0.1]: "CrossEntropy.of(smoothing=0.1)",
        Residual[Linear[3, 3, False]]: "Residual[Linear.of(3, 3, bias=False)]",
    }
    for made, text in texts.items():
        assert repr(made) == text and eval(text, globals() | {"Strided": Strided}) is made


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


def test_submodules_are_imported_as_ever():
    code = "from noeira import training, datasets; print(training.__name__, datasets.__name__)"
    printed = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout
    assert printed.split() == ["noeira.training", "noeira.datasets"]
