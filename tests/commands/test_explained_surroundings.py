"""What `explain` says of clipping, schedule, optimizer, averages and groups, in numbers."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import noeira
from noeira.nn import (
    SGD,
    Adam,
    AdamW,
    ClipAdaptive,
    ClipNorm,
    Cosine,
    CrossEntropy,
    Group,
    Linear,
    Sequential,
    WarmupCosine,
)

pytest_plugins = ("command_line",)

Net = Sequential[Linear[5, 8], Linear[8, 7], Linear[7, 3]]
TRAINING: Any = {"loss": CrossEntropy, "batch": 4}
GROUPS = {"2.*": Group(lr_factor=10.0), "0.*": Group(frozen=True)}


def around(net: Any, **options: Any) -> list[str]:
    """The lines about what surrounds the gradients."""
    lines = str(noeira.explain(net, **options)).splitlines()
    first = lines.index("around the gradients:") + 1
    return lines[first : lines.index("", first)]


def test_all_of_it():
    assert around(
        Net,
        **TRAINING,
        optimizer=AdamW(lr=3e-4),
        clip=ClipNorm(1.0),
        schedule=WarmupCosine(steps=200, warmup=20),
        groups=GROUPS,
        ema=0.999,
    ) == [
        "  clip_norm: max_norm = 1.0",
        "  warmup_cosine_rate: length = 200, minimum = 0.0, warmup = 20, in updates",
        "  adam: lr = 0.0003, beta1 = 0.9, beta2 = 0.999, eps = 1e-08, weight_decay = 0.01, "
        "decoupled = True",
        "    2.*: lr × 10.0 (1 parameter: 2.weight)",
        "    2.*: lr × 10.0, weight_decay = 0.0 (1 parameter: 2.bias)",
        "    0.*: frozen (2 parameters: 0.weight, 0.bias)",
        "    weight_decay = 0.0 (1 parameter: 1.bias)",
        "  moving_average: decay = 0.999",
    ]


def test_epochs_and_many_parameters():
    long = Sequential[tuple([Linear[3, 3]] * 5)]
    found = around(long, **TRAINING, optimizer=SGD, clip=ClipAdaptive(), schedule=Cosine(epochs=3))
    assert found[:2] == [
        "  adaptive_clip: clip = 0.3, least = 0.001",
        "  cosine_rate: length = 3, minimum = 0.0, in epochs",
    ]
    (line,) = around(long, **TRAINING, optimizer=AdamW)[1:]
    names = "0.bias, 1.bias, 2.bias, 3.bias, …"
    assert line == f"    weight_decay = 0.0 (5 parameters: {names})"


def test_a_program_knows_no_patterns():
    program = noeira.compile(Net, **TRAINING, optimizer=Adam, groups=GROUPS, target="reference")
    assert around(program)[1:] == [
        "    frozen (2 parameters: 0.weight, 0.bias)",
        "    lr × 10.0 (2 parameters: 2.weight, 2.bias)",
    ]


def test_the_command_says_it(call: Callable[..., str]):
    options = ("explain", "net.py:Plain", "--optimizer", "adam", "--ema", "0.9")
    frozen = ("--groups", "*.bias:frozen=true")
    assert "\n  moving_average: decay = 0.9\n" in call(*options)
    first, last = json.loads(call(*options, *frozen, "--json"))["around"]
    assert first["op"] == "adam" and first["numbers"]["lr"] == 0.001
    (group,) = first["groups"]
    assert group["pattern"] == "*.bias" and group["numbers"] is None
    assert last == {"op": "moving_average", "numbers": {"decay": 0.9}, "unit": "", "groups": []}
    assert json.loads(call("explain", "net.py:Plain", "--loss", "none", "--json"))["around"] == []


def test_lines_fit_a_terminal():
    lines = noeira.explain(Net, **TRAINING, optimizer=AdamW).text(60).splitlines()
    first = lines.index("around the gradients:") + 1
    assert lines[first : first + 2] == [
        "  adam: lr = 0.001, beta1 = 0.9, beta2 = 0.999, eps = 1e-08,",
        "    weight_decay = 0.01, decoupled = True",
    ]
