"""What a training says while it runs: a line an epoch, and on a terminal that it is built."""

from __future__ import annotations

import io
import re
import sys
from typing import Any

import numpy as np
import pytest
from trained import samples, trainer

import noeira
from noeira.training.progress import Reporter
from noeira.training.result import Epoch

DATA, TEST = samples(47), samples(30, 1)


class Terminal(io.StringIO):
    """Keeps what is written."""

    def isatty(self) -> bool:
        return True


def test_times_of_small_data_are_told_in_milliseconds(capsys: pytest.CaptureFixture[str]) -> None:
    told = Reporter(3, None, True)
    told.end(Epoch(0.5, None, 0.0041, number=1, samples=41))
    told.end(Epoch(0.5, 0.25, 1.2345, number=2, samples=1000, evaluating=0.05))
    told.end(Epoch(0.5, 0.25, 0.2, number=3, samples=1000, evaluating=0.1))
    assert capsys.readouterr().out.splitlines() == [
        "epoch 1/3  loss 0.5000  4.1 ms  10.0k samples/s",
        "epoch 2/3  loss 0.5000  test loss 0.2500  1.18 s + 50 ms  844 samples/s",
        "epoch 3/3  loss 0.5000  test loss 0.2500  0.10 s + 0.10 s  10.0k samples/s",
    ]


@pytest.mark.parametrize(("options", "of"), [({}, ""), ({"ema": 0.9}, " of the average")])
def test_lines_say_what_was_evaluated(
    options: dict[str, Any], of: str, capsys: pytest.CaptureFixture[str]
) -> None:
    trainer(**options).fit(DATA, TEST, 1, evaluate_every=3)
    within, epoch = capsys.readouterr().out.splitlines()
    rest = rf"loss \d\.\d{{4}}  test loss \d\.\d{{4}}{of}  accuracy \d+\.\d\d %"
    assert re.fullmatch(rf"  step 3  {rest}", within)
    assert re.match(rf"epoch 1/1  {rest}  ", epoch)


def test_a_terminal_is_told_of_building(monkeypatch: pytest.MonkeyPatch) -> None:
    narrow: Any = (DATA[0].astype("f4"), np.zeros(3, "i4"))
    for progress, expected in ((True, "building …\r          \r"), (False, "")):
        monkeypatch.setattr(sys, "stdout", terminal := Terminal())
        with pytest.raises(noeira.NoeiraError):
            trainer().fit(narrow, progress=progress)
        monkeypatch.undo()
        assert terminal.getvalue() == expected
