"""The folder of a training: checkpoints, logs, and going on with them."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from trained import DATA, TEST, bits, fit, made_up, rows, samples, trainer

import noeira
from noeira.nn import Adam
from noeira.runtime.resident import EvaluationData
from noeira.training import EarlyStopping, Step
from noeira.training.folder import Folder


def test_without_a_folder_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    trainer().fit(DATA, TEST, 2, stop=EarlyStopping(1), progress=False)
    assert not list(tmp_path.iterdir())


class EndsAfter:
    """Asks to stop after so many steps."""

    def __init__(self, step: int) -> None:
        self.step = step

    def on_step(self, step: Step) -> bool:
        return step.step == self.step


@pytest.mark.parametrize("ends_after", [5, 7])
def test_a_resumed_training_is_as_one_that_never_stopped(tmp_path: Path, ends_after: int) -> None:
    options: Any = {"evaluate_every": 4, "stop": EarlyStopping(4, measure="test_accuracy")}
    adam: Any = {"optimizer": Adam(lr=1e-2), "seed": 7}
    whole, begun, resumed = (trainer(**adam) for _ in range(3))
    expected = fit(whole, tmp_path / "whole", 4, **options)
    ending = EndsAfter(ends_after)
    # One call a step adds up losses in the same order as many.
    fit(begun, tmp_path / "parts", 4, callbacks=[ending], **options)
    result = fit(resumed, tmp_path / "parts", 4, resume=True, **options)
    assert bits(resumed.program) == bits(whole.program)
    timeless = [{**row, "seconds": 0} for row in rows(tmp_path / "parts")]
    wanted = [{**row, "seconds": 0} for row in rows(tmp_path / "whole")]
    for found, row in zip(timeless, wanted, strict=True):
        assert found == pytest.approx(row, rel=1e-12)
    assert [e.step for e in result.evaluations] == [e.step for e in expected.evaluations]
    assert result.best is not None and expected.best is not None
    assert (result.best.step, result.ended) == (expected.best.step, expected.ended)
    assert [e.number for e in result.epochs] == [e.number for e in expected.epochs]


def test_patience_and_the_best_outlive_a_stop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop = EarlyStopping(3, measure="test_accuracy")
    made_up(monkeypatch, [0.9, 0.5, 0.6, 0.7])
    best = list[bytes]()
    one = trainer()
    fit(one, tmp_path, 2, stop=EarlyStopping(3, measure="test_accuracy", restore=False),
        callbacks=[lambda e: best.append(bits(one.program))])  # fmt: skip
    again = trainer()
    result = fit(again, tmp_path, 9, stop=stop, resume=True)
    assert [e.accuracy for e in result.epochs] == [0.9, 0.5, 0.6, 0.7]
    assert result.ended == "patience" and bits(again.program) == best[0]
    # There is nothing left to do, and asking again does nothing.
    asked = fit(trainer(), tmp_path, 9, stop=stop, resume=True)
    assert asked.ended == "patience" and len(asked.epochs) == 4


def test_resume_begins_where_nothing_lies(tmp_path: Path) -> None:
    one, plain = trainer(), trainer()
    fit(one, tmp_path / "new", 2, resume=True)
    plain.fit(DATA, TEST, 2, progress=False)
    assert bits(one.program) == bits(plain.program)


def test_best_and_last_are_the_checkpoints_they_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made_up(monkeypatch, [0.5, 0.9, 0.4])
    seen = list[bytes]()
    one = trainer()
    kept: Any = [lambda epoch: seen.append(bits(one.program))]
    result = fit(one, tmp_path, 3, best="test_accuracy", callbacks=kept)
    assert result.best == result.evaluations[1]
    for name, expected in (("best", seen[1]), ("last", seen[2])):
        other = trainer()
        other.restore(tmp_path / f"{name}.safetensors")
        assert bits(other.program) == expected


def test_save_every_few_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    saved = list[int]()
    before = Folder.save_last

    def save_last(self: Folder, program: Any, history: Any) -> None:
        saved.append(history.steps)
        before(self, program, history)

    monkeypatch.setattr(Folder, "save_last", save_last)
    fit(trainer(), tmp_path, 3, save_every=4)
    assert saved == [4, 8, 12, 15]


def test_ctrl_c_keeps_what_was_learned(tmp_path: Path) -> None:
    class Interrupting:
        def on_step(self, step: Step) -> None:
            if step.step == 6:
                os.kill(os.getpid(), signal.SIGINT)

    whole, one, again = trainer(), trainer(), trainer()
    result = fit(one, tmp_path, 3, callbacks=[Interrupting()])
    assert result.interrupted and result.ended == "interrupted" and len(result.epochs) == 1
    result = fit(again, tmp_path, 3, resume=True)
    whole.fit(DATA, TEST, 3, progress=False)
    assert len(result.epochs) == 3 and bits(again.program) == bits(whole.program)


def test_a_best_checkpoint_of_steps_to_be_done_again_is_not_gone_back_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stop: Any = {"stop": EarlyStopping(1, measure="test_accuracy")}
    made_up(monkeypatch, [0.5, 0.9, 0.4])
    fit(trainer(), tmp_path, 1, **stop)
    stands = [(name, (tmp_path / name).read_bytes()) for name in ("last.json", "last.safetensors")]
    fit(trainer(), tmp_path, 2, resume=True, **stop)
    # As if it had been killed after the second epoch, before it was saved.
    for name, content in stands:
        (tmp_path / name).write_bytes(content)
    one, plain = trainer(), trainer()
    one.fit(DATA, TEST, 2, folder=tmp_path, resume=True, **stop)
    plain.fit(DATA, epochs=2, progress=False)
    assert bits(one.program) == bits(plain.program)
    last = "best.safetensors is not that of step 5: the network is the last one"
    assert capsys.readouterr().out.splitlines()[-1] == last


def ctrl_c(self: EvaluationData, between: Any = None) -> bool:
    """An evaluation in which Ctrl-C is pressed."""
    os.kill(os.getpid(), signal.SIGINT)
    return between(0)


def test_ctrl_c_in_the_last_evaluation_of_an_epoch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, y = DATA
    batches = [(x[i : i + 10], y[i : i + 10]) for i in range(0, 47, 10)]

    for name, data in (("loaded", DATA), ("streamed", batches)):
        options: Any = {"folder": tmp_path / name, "progress": False}
        with monkeypatch.context() as patched:
            patched.setattr(EvaluationData, "stopped", ctrl_c)
            result = trainer().fit(data, TEST, 3, **options)
        assert result.interrupted and not result.epochs and not result.evaluations
        again, whole = trainer(), trainer()
        result = again.fit(data, TEST, 3, resume=True, **options)
        expected = whole.fit(data, TEST, 3, progress=False)
        assert bits(again.program) == bits(whole.program)
        assert [row["step"] for row in rows(tmp_path / name)] == [5, 10, 15]
        assert [(e.loss, e.test_loss) for e in result.epochs] == [
            (e.loss, e.test_loss) for e in expected.epochs
        ]


def test_an_evaluation_that_is_made_later_is_made_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(EvaluationData, "stopped", ctrl_c)
        assert fit(trainer(), tmp_path, 1).interrupted
    assert len(fit(trainer(), tmp_path, 1, resume=True).epochs) == 1
    made_up(monkeypatch, [])
    assert len(fit(trainer(), tmp_path, 1, resume=True).epochs) == 1


def test_other_data_are_refused_in_the_midst_of_an_epoch(tmp_path: Path) -> None:
    fit(trainer(), tmp_path, 3, callbacks=[EndsAfter(7)])
    with pytest.raises(noeira.DataError) as caught:
        trainer().fit(samples(60), TEST, 3, folder=tmp_path, resume=True)
    assert str(caught.value) == (
        "training stopped after 2 steps of epoch 2, in data of another number or order than these "
        "60 samples: give it those, and shuffle as it was"
    )


@pytest.mark.parametrize("dies_at", ["save", "stands", "replace"])
def test_a_death_while_saving_leaves_what_can_be_gone_on_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dies_at: str
) -> None:
    def dies(*arguments: Any) -> None:
        raise OSError("the power is gone")

    fit(trainer(), tmp_path, 1)
    with monkeypatch.context() as patched:
        if dies_at == "save":
            patched.setattr("noeira.training.folder.digest_of", keep_first(dies))
        elif dies_at == "stands":
            patched.setattr("noeira.training.folder.replacing_for_good", dies)
        else:
            patched.setattr("os.replace", but_for("last.safetensors", dies))
        with pytest.raises(noeira.CheckpointError, match="cannot be written: the power is gone"):
            fit(trainer(), tmp_path, 2, resume=True)
    again, whole = trainer(), trainer()
    assert len(fit(again, tmp_path, 3, resume=True).epochs) == 3
    whole.fit(DATA, TEST, 3, progress=False)
    assert bits(again.program) == bits(whole.program)


def but_for(name: str, dies: Callable[..., Any]) -> Callable[..., None]:
    """Renaming, and death if a file of this name is to be replaced."""
    rename = os.replace
    return lambda old, new: dies() if Path(new).name == name else rename(old, new)


def keep_first(dies: Callable[..., Any]) -> Callable[..., Any]:
    """The digest of the file that is there, and death at the next one."""
    from noeira.training.folder import digest_of

    asked = list[Path]()

    def digest(path: Path) -> str:
        asked.append(path)
        return digest_of(path) if len(asked) == 1 else dies()

    return digest


def test_a_folder_that_holds_a_training_is_refused(tmp_path: Path) -> None:
    fit(trainer(), tmp_path, 1)
    with pytest.raises(noeira.OptionError) as caught:
        fit(trainer(), tmp_path, 1)
    assert str(caught.value) == (
        f"{tmp_path} holds a training already (last.safetensors): go on with it by resume=True, "
        "or name another folder"
    )
    (tmp_path / "last.json").write_text("{")
    with pytest.raises(noeira.CheckpointError, match=r"last\.json is damaged: it is no JSON"):
        fit(trainer(), tmp_path, 2, resume=True)
    (tmp_path / "last.json").write_text("{}")
    with pytest.raises(noeira.CheckpointError, match="one of them was replaced"):
        fit(trainer(), tmp_path, 2, resume=True)
    (tmp_path / "file").write_text("")
    with pytest.raises(noeira.OptionError, match=r"file/run cannot be made: "):
        fit(trainer(), tmp_path / "file" / "run", 1)


def test_what_is_best_is_not_redefined(tmp_path: Path) -> None:
    result = fit(trainer(), tmp_path, 2, best="test_accuracy")
    with pytest.raises(noeira.OptionError) as caught:
        fit(trainer(), tmp_path, 3, resume=True, best="test_loss")
    assert str(caught.value) == (
        f"what {tmp_path} has as the best is the largest test_accuracy, not the smallest "
        "test_loss: go on with that measure, or name another folder"
    )
    # Where nobody says anything, it is as it was.
    assert fit(trainer(), tmp_path, 2, resume=True).best == result.best


def test_a_training_says_where_it_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fit(trainer(), tmp_path, 1)
    for epochs in (2, 1):
        trainer().fit(DATA, TEST, epochs, folder=tmp_path, resume=True)
    first, _, nothing = capsys.readouterr().out.splitlines()
    assert first == "going on after step 5, in epoch 2"
    assert nothing == "nothing to do: 2 epochs are done, of 1"
