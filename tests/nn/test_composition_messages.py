"""What is said of layers that do not fit: the pair, in its user's notation, and what to write."""

from __future__ import annotations

import pytest
from says import says
from usage_types import MLP, Block

from noeira.errors import CompositionError
from noeira.nn import (
    LeakyReLU,
    Linear,
    LinearReLU,
    Parallel,
    ReLU,
    Repeat,
    Residual,
    Sequential,
    Tanh,
)


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

  Change Linear[3, 4] to Linear[3, 3], or to Linear[4, 4].
  Or write ProjectedResidual[Linear[3, 4], Linear[3, 4]].""",
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
