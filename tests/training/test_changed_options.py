"""What a training that is gone on with takes from its file, what from its program, and what must be
the same.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from trained import bits, samples, trainer

import noeira
from noeira.nn import SGD, Adam, AdamW, ClipNorm, Cosine, CrossEntropy, Group

DATA = samples(47)
BEGUN: dict[str, Any] = {"optimizer": Adam(lr=1e-3), "ema": 0.9}


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of a training of one epoch."""
    path, one = tmp_path_factory.mktemp("begun") / "training.safetensors", trainer(**BEGUN)
    one.fit(DATA, epochs=1, progress=False)
    one.program.save(path)
    return path


@pytest.mark.parametrize(
    "others",
    [
        {"optimizer": AdamW(lr=0.5)},
        {"optimizer": Adam(lr=0.5, beta1=0.5)},
        {"ema": 0.5},
        {"accumulate": 2},
        {"clip": ClipNorm(0.01)},
        {"schedule": Cosine(epochs=9)},
        {"groups": {"0.*": Group(frozen=True)}},
        {"loss": CrossEntropy.of(smoothing=0.3)},
        {"seed": 5},
    ],
    ids=str,
)
def test_what_may_be_another(begun: Path, others: dict[str, Any]) -> None:
    one, same = trainer(**(BEGUN | others)), trainer(**BEGUN)
    for each in (one, same):
        each.restore(begun)
        assert each.program.lr == pytest.approx(1e-3) and each.program.seed == 0
    assert bits(one.program) == bits(same.program)
    frozen = one.program.params["0.weight"].copy()
    for each in (one, same):
        each.fit(DATA, epochs=1, progress=False)
    with one.program.averaged(), same.program.averaged():
        changed = bits(one.program) != bits(same.program)
    assert changed == ("seed" not in others)
    stayed = np.array_equal(one.program.params["0.weight"], frozen)
    assert stayed == ("groups" in others)


@pytest.mark.parametrize(
    ("others", "message"),
    [
        ({"optimizer": SGD()}, "it lacks %sgd.step"),
        ({"batch": 5}, "is of training in batches of 10, and this program takes 5"),
        ({"ema": None}, "keeps no %ema.0.weight"),
        ({"dtype": "f64"}, "it has 0.weight as float32[5, 8], not float64[5, 8]"),
    ],
)
def test_what_must_be_the_same(begun: Path, others: dict[str, Any], message: str) -> None:
    with pytest.raises(noeira.CheckpointError) as caught:
        trainer(**(BEGUN | others)).restore(begun)
    assert message in str(caught.value)
