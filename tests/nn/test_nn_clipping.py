"""Ways to clip gradients: what they name, and one message for each value out of range."""

from __future__ import annotations

import copy
import pickle
from dataclasses import fields
from typing import Any

import pytest

from noeira.errors import OptionError, VerifyError
from noeira.ir.attributes import filled
from noeira.ir.op import op
from noeira.nn import ClipAdaptive, ClipNorm, Clipping, ClipValue, ReLU
from noeira.nn.clipping import clipping

KNOWN = "there are ClipAdaptive, ClipNorm, ClipValue"


def test_each_names_its_op_and_attributes() -> None:
    values = (ClipNorm(1), ClipValue(0.5), ClipAdaptive())
    named = [(value.op, value.options()) for value in values]
    assert named == [
        ("clip_norm", {"max_norm": 1.0}),
        ("clip_value", {"limit": 0.5}),
        ("adaptive_clip", {"clip": 0.3, "least": 1e-3}),
    ]
    for name, options in named:
        own = [field.name for field in fields(op(name).Attrs)]
        assert own == [*options, *(["ranges"] if "ranges" in own else [])]
        filled(name, op(name).Attrs, options)


def test_values_are_equal_and_copied_as_they_are_written() -> None:
    for value in (ClipNorm(0), ClipValue(limit=2), ClipAdaptive(0.1, least=0.0)):
        assert copy.deepcopy(value) == pickle.loads(pickle.dumps(value)) == value
        assert {value: 1}[copy.copy(value)] == 1
    assert repr(ClipNorm(1)) == "ClipNorm(max_norm=1.0)"
    assert clipping(ClipAdaptive) == clipping(ClipAdaptive()) == ClipAdaptive(0.3, 1e-3)
    assert clipping(ClipNorm(2)) == ClipNorm(2.0)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ClipNorm(-1), "ClipNorm: max_norm must be 0 or greater, not -1.0"),
        (lambda: ClipNorm("1"), "ClipNorm: max_norm must be a finite number, not '1'"),  # type: ignore[arg-type]
        (lambda: ClipNorm(float("inf")), "ClipNorm: max_norm must be a finite number, not inf"),
        (lambda: ClipNorm(), "ClipNorm needs max_norm: write ClipNorm(1.0)"),  # type: ignore[call-arg]
        (lambda: clipping(ClipNorm), "ClipNorm needs max_norm: write ClipNorm(1.0)"),
        (lambda: ClipValue(0), "ClipValue: limit must be greater than 0, not 0.0"),
        (lambda: clipping(ClipValue), "ClipValue needs limit: write ClipValue(0.5)"),
        (lambda: ClipAdaptive(0), "ClipAdaptive: clip must be greater than 0, not 0.0"),
        (lambda: ClipAdaptive(least=-1), "ClipAdaptive: least must be 0 or greater, not -1.0"),
        (
            lambda: ClipNorm(maxnorm=1),  # type: ignore[call-arg]
            "ClipNorm has no option maxnorm; it has max_norm; did you mean max_norm?",
        ),
        (
            lambda: ClipNorm(1.0, 2.0),  # type: ignore[call-arg]
            "ClipNorm: 2 options are too many; it has max_norm",
        ),
        (
            lambda: ClipAdaptive(0.1, clip=0.2),  # type: ignore[call-arg]
            "ClipAdaptive: clip is given twice, by its place and by its name",
        ),
        (
            lambda: clipping(1),
            "clip must be one such as ClipNorm(1.0), not 1: write clip=ClipNorm(1.0); " + KNOWN,
        ),
        (
            lambda: clipping("clipadaptive"),
            "clip must be one such as ClipNorm(1.0), not 'clipadaptive': "
            "write clip=ClipAdaptive; " + KNOWN,
        ),
        (lambda: clipping(ReLU), "clip must be one such as ClipNorm(1.0), not ReLU; " + KNOWN),
        (
            lambda: clipping(Clipping()),
            "clip must be one such as ClipNorm(1.0), not Clipping(); " + KNOWN,
        ),
        (
            lambda: ClipNorm(1e300).check_fits("f32"),
            "ClipNorm: max_norm is 1e+300, which does not fit in f32, the dtype of the network",
        ),
    ],
)
def test_one_message_for_each_mistake(make: Any, message: str) -> None:
    with pytest.raises(OptionError) as found:
        make()
    assert str(found.value) == message


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("clip_norm", {"max_norm": -1.0}, "ClipNorm: max_norm must be 0 or greater, not -1.0"),
        ("clip_norm", {}, "clip_norm needs the attribute 'max_norm'"),
        ("clip_value", {"limit": 0.0}, "ClipValue: limit must be greater than 0, not 0.0"),
        ("adaptive_clip", {"clip": 0.0}, "AdaptiveClip: clip must be greater than 0, not 0.0"),
        ("moving_average", {"decay": 1.5}, "MovingAverage: decay must be from 0 to 1, not 1.5"),
        (
            "accumulate_gradients",
            {"weight": 0.0},
            "AccumulateGradients: weight must be greater than 0, not 0.0",
        ),
    ],
)
def test_a_graph_has_the_same_bounds(name: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(VerifyError) as found:
        filled(name, op(name).Attrs, options)
    assert str(found.value) == message
