"""`noeira train`: a training from a file, its overrides, and what it says of every mistake."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from noeira.commands.support.config import SECTIONS, read_config
from noeira.nn import Adam
from noeira.options import CompileOptions, names_of
from noeira.training import EarlyStopping

pytest_plugins = ("command_line",)

CONFIG = """\
[model]
type = "net.py:Plain"

[data]
train = "train.npz"
test = "test.npz"

[trainer]
epochs = 2
batch = 10
optimizer = "Adam(lr=1e-2)"
target = "reference"
stop = "EarlyStopping(patience=2, measure='test_accuracy')"
folder = "runs/1"
"""


@pytest.fixture
def config(folder: Path) -> Path:
    """A file, and the data that it names."""
    random = np.random.default_rng(0)
    for name, rows in (("train", 47), ("test", 20)):
        x = random.standard_normal((rows, 4)).astype("f4")
        np.savez(folder / f"{name}.npz", x=x, y=(x[:, 0] > 0).astype("i4"))
        np.save(folder / f"{name}_x.npy", x)
    (folder / "train.toml").write_text(CONFIG)
    return folder


def test_a_training_from_a_file(call: Callable[..., str], config: Path) -> None:
    lines = call("train", "train.toml").splitlines()
    assert re.match(
        r"epoch 1/2  loss \d\.\d{4}  test loss \d\.\d{4}  accuracy \d+\.\d\d %", lines[0]
    )
    best = r"(, \d+\.\d % at step \d+, the best)?"
    assert re.fullmatch(rf"test accuracy \d+\.\d %{best} \(2 epochs, [\d.]+ m?s\)", lines[-3])
    run = config / "runs" / "1"
    assert lines[-2] == (
        f"{run}: last.safetensors, best.safetensors, last.json, metrics.csv, metrics.jsonl"
    )
    assert re.match(r"best\.safetensors: step \d+, epoch \d, loss ", lines[-1])
    assert len((run / "metrics.jsonl").read_text().splitlines()) == 2
    refused = call("train", "train.toml", code=1)
    assert refused == (
        f"noeira: {run} holds a training already (last.safetensors): go on with it by --resume, "
        "or name another folder\n"
    )
    more = call("train", "train.toml", "--resume", "--set", "trainer.epochs=3").splitlines()
    assert [line[:9] for line in more if line.startswith("epoch")] == ["epoch 3/3"]
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows] == [5, 10, 15]


def test_ctrl_c_says_how_to_go_on(
    call: Callable[..., str], config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("noeira.runtime.interrupts.Interrupts.wanted", True, raising=False)
    monkeypatch.setattr(
        "noeira.runtime.interrupts.Interrupts.__init__", lambda self: setattr(self, "before", None)
    )
    stop = "trainer.stop=EarlyStopping(patience=4)"
    lines = call("train", "train.toml", "--set", stop, code=1).splitlines()
    run = config / "runs" / "1"
    assert lines[0] == f"stopped in epoch 1/2; what was learned is in {run / 'last.safetensors'}"
    assert lines[-1] == f"go on: noeira train train.toml --resume --set '{stop}'"


def test_a_path_may_begin_at_home(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(config / "home"))
    found = read_config("train.toml", ["trainer.folder=~/runs/1"]).values
    assert found["trainer"]["folder"] == str(config / "home" / "runs" / "1")


def test_what_a_file_says(config: Path) -> None:
    changes = ["trainer.optimizer=adam:lr=0.5", "data.train=other.npz", "model.input=[3, 4]"]
    found = read_config("train.toml", changes).values
    assert found["trainer"]["optimizer"] == Adam(lr=0.5)
    assert found["trainer"]["stop"] == EarlyStopping(2, measure="test_accuracy")
    assert found["data"]["train"] == str(config / "other.npz")
    assert found["model"]["input"] == (3, 4)
    # What a compile has, a file has too.
    known = {key for section in SECTIONS.values() for key in section}
    assert set(names_of(CompileOptions)) <= known


FILES = """train = "train.npz"
test = "test.npz"
"""
DATA_MISTAKES = {
    'train = "train.npz"\ny = "y.npy"': "train does not go with y: name a data set",
    'x = "train_x.npy"': "y is missing, which goes with x",
    'test_y = "train_x.npy"': "test_x is missing, which goes with test_y",
    'test = "test.npz"': "there are no data to train on: name a data set",
    'flat = true\ntrain = "train.npz"': 'flat has no effect without source = "mnist"',
    'raw = true\ntrain = "train.npz"': 'raw has no effect without source = "mnist"',
    'source = "cifar10"\nflat = true': 'flat has no effect with source = "cifar10"',
    'source = "mnst"': "there is no source mnst; did you mean mnist? There are mnist",
    'source = "mnist"\ntest = "test.npz"': 'test has no effect with source = "mnist"',
}
MISTAKES = [
    ("[trainer]", "[trainers]", ": there is no section trainers; did you mean trainer? There are "),
    ("[data]", "[data", ": it is no TOML: "),
    ("net.py:Plain", "net.py:Plane", ", [model]: type: "),
    (
        'type = "net.py:Plain"',
        "",
        ', [model]: type is missing: the network to train, type = "net.py:MLP"\n',
    ),
    (
        'folder = "runs/1"',
        "",
        ", [trainer]: folder is missing: where checkpoints and logs are to lie, "
        'folder = "runs/1"\n',
    ),
]
TRAINER_MISTAKES = [
    ("epochs = 2", "epoch = 2", "there is no key epoch; did you mean epochs?\n"),
    ("epochs = 2", 'epochs = "2"', "epochs must be a whole number, not '2'\n"),
    ("epochs = 2", "epochs = true", "epochs must be a whole number, not true\n"),
    ("epochs = 2", "epochs = 0", "epochs must be a whole number of at least 1, not 0\n"),
    ("Adam(", "Adem(", "optimizer: there is no optimizer Adem; did you mean Adam?"),
    ("Adam(lr", "Adam(rl", "optimizer: Adam has no option rl; it has lr, "),
    (
        '"Adam(lr=1e-2)"',
        "3",
        "optimizer must be a text such as 'AdamW(lr=1e-3)', not 3\n",
    ),
    (
        "patience=2",
        "patients=2",
        "stop: EarlyStopping has no option patients; it has patience, least, measure, restore; "
        "did you mean patience?\n",
    ),
    ("patience=2", "0", "stop: EarlyStopping: patience must be a whole number of at least 1"),
    ("patience=2", "1, 2, 3, 4", "stop: EarlyStopping: measure is given twice, by its place"),
    ("patience=2", "1, 2, 3, 4, 5", "stop: EarlyStopping: 5 options are too many; it has "),
    ('"EarlyStopping(', '"1 + (', "stop: 1 + (patience=2, measure='test_accuracy') cannot be read"),
    (
        "epochs = 2",
        'metrics = ["Acuracy"]',
        "metrics: there is no metric Acuracy; did you mean Accuracy?",
    ),
    (
        "epochs = 2",
        'groups = { "*.bias" = "Group(froze=true)" }',
        "groups: Group has no option froze; it has lr_factor, weight_decay, frozen; did you mean "
        "frozen?",
    ),
    ("reference", "referense", "target: there is no target referense; did you mean reference?"),
    ("epochs = 2", 'best = "loss"', "best has no effect beside stop, whose measure says what is "),
]
CHANGES = [
    (
        "epochs=3",
        "--set epochs=3: write SECTION.KEY=VALUE, as in --set trainer.epochs=3; sections are "
        "model, data, trainer\n",
    ),
    ("trainer.epoch=3", "--set trainer.epoch: there is no key epoch; did you mean epochs?\n"),
    ("trainer.epochs=x", "--set trainer.epochs: epochs must be a whole number, not 'x'\n"),
    ("data.train=there.npz", "there is no file "),
    (
        "trainer.optimizer=AdamW[1]",
        "--set trainer.optimizer: optimizer: AdamW[1] cannot be read: write it as in "
        "Adam(lr=0.001)\n",
    ),
    (
        "trainer.stop=EarlyStopping.of(patience=3)",
        "--set trainer.stop: stop: EarlyStopping.of(patience=3) cannot be read: write it as in "
        "EarlyStopping(patience=5)\n",
    ),
]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        *MISTAKES,
        *((old, new, f", [trainer]: {message}") for old, new, message in TRAINER_MISTAKES),
        *((FILES, f"{new}\n", f", [data]: {message}") for new, message in DATA_MISTAKES.items()),
    ],
)
def test_mistakes(call: Callable[..., str], config: Path, old: str, new: str, message: str) -> None:
    assert old in CONFIG
    (config / "train.toml").write_text(CONFIG.replace(old, new))
    found = call("train", "train.toml", code=2)
    assert found.startswith(f"noeira: train.toml{message}")
    assert len(found.splitlines()) == 1 and not (config / "runs").exists()


@pytest.mark.parametrize(("change", "message"), CHANGES)
def test_overrides(call: Callable[..., str], config: Path, change: str, message: str) -> None:
    found = call("train", "train.toml", "--set", change, code=2)
    assert found.startswith(f"noeira: {message}")


def test_files_without_what_is_wanted(call: Callable[..., str], config: Path) -> None:
    np.savez(config / "other.npz", a=np.zeros(3), b=np.zeros(3))
    (config / "text.npz").write_text("no")
    for name, message in (
        ("other.npz", "other.npz has a, b; it must have x and y"),
        ("text.npz", "text.npz is no file of NumPy's, or it is damaged"),
        ("train_x.npy", "train_x.npy holds one array; it must be an .npz file with x and y"),
    ):
        found = call("train", "train.toml", "--set", f"data.train={name}", code=1)
        assert found == f"noeira: {config / message}\n"
