"""The command line: options, files of networks, and streams."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from command_runs import python

from noeira.commands.support import terminal

pytest_plugins = ("command_line",)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("def broken(:\n", "bad.py, line 1 cannot be imported: SyntaxError"),
        ("import nothing_like_it\n", "bad.py cannot be imported: No module named"),
        ("x = 1\ny = x / 0\n", "bad.py, line 2 cannot be imported: ZeroDivisionError"),
        (
            "from noeira.nn import *\n\nNet = Sequential[Linear[3, 4], Linear[5, 6]]\n",
            "bad.py, line 3: layers 0 and 1 of Sequential do not fit",
        ),
        ("raise SystemExit(3)\n", "bad.py, line 1 cannot be imported: SystemExit"),
    ],
)
def test_files_that_cannot_be_imported(
    text: str, expected: str, call: Callable[..., str], folder: Path
):
    (folder / "bad.py").write_text(text)
    message = call("explain", "bad.py:Net", code=1)
    assert expected in message and "Traceback" not in message


def test_modules_beside_the_file_can_be_imported(call: Callable[..., str], folder: Path):
    (folder / "deep").mkdir()
    (folder / "deep" / "beside_net.py").write_text("from noeira.nn import Linear\nwidth = 4\n")
    (folder / "deep" / "net.py").write_text("from beside_net import *\nNet = Linear[3, width]\n")
    assert "1 kernel" in call("kernels", "deep/net.py:Net", "--loss", "none", "--isa", "plain")


def test_a_module_by_its_dotted_name(folder: Path):
    found = python("summary", "net:Plain", cwd=folder)
    assert found.returncode == 0 and "0.weight" in found.stdout


OWN = """
from dataclasses import dataclass
from typing import ClassVar

from noeira.nn import MSE, Adam, Sequential


class Twice(MSE):
    \"\"\"A loss of one's own.\"\"\"


@dataclass(frozen=True)
class Warm(Adam):
    \"\"\"An optimizer of one's own.\"\"\"

    lr: float = 0.5


MADE = Warm()
"""


def test_options_in_the_spelling_of_python(call: Callable[..., str], folder: Path):
    words = ("dump", "net.py:Plain", "--batch", "2", "--stage", "trace")
    plain = call(*words, "--loss", "CrossEntropy:smoothing=0.25", "--optimizer", "adam:lr=0.5")
    python = call(*words, "--loss", "CrossEntropy.of(smoothing=0.25)", "--optimizer", "Adam(lr=.5)")
    assert python == plain and "update{lr = 0.5," in plain and "smoothing = 0.25" in plain
    assert call(*words, "--loss", "CrossEntropy[0.25]", "--optimizer", "Adam(0.5)") == plain
    (folder / "own.py").write_text(OWN)
    nested = call(*words, "--loss", "Losses[CrossEntropy.of(smoothing=0.25)]")
    assert "from loss.0: CrossEntropy.of(smoothing=0.25)" in nested and "smoothing = 0.25" in nested
    text = call(*words, "--loss", "own.py:Twice", "--optimizer", "own.py:Warm(beta1=0.5)")
    assert "from loss: Twice" in text and '["beta1", 0.5]' in text and "update{lr = 0.5," in text
    colon = call(*words, "--loss", "own.py:Twice", "--optimizer", "own.py:Warm:beta1=0.5")
    assert colon == text
    loss = call(*words, "--loss", "own.py:Twice:reduction='sum'", "--optimizer", "own.py:MADE")
    assert "from loss: Twice.of(reduction='sum')" in loss and "update{lr = 0.5," in loss
    made = call(*words, "--optimizer", "own.py:MADE:lr=1", code=2)
    assert "own.py:MADE:lr=1: own.py:MADE is made already, and takes no options (see" in made
    strange = call(*words, "--optimizer", "own.py:Warm:", "--optimizer", "own.py:3 4", code=2)
    assert (
        "own.py:3 4: expected a name after the colon, as in own.py:Name, with options "
        "own.py:Name:key=value or 'own.py:Name(key=value)'" in strange
    )
    assert call(*words, "--init", "Normal[0.0, 0.5]") == call(*words, "--init", "normal[0.0,0.5]")


def test_options_are_not_evaluated(call: Callable[..., str], folder: Path):
    for text in ("__import__('os').mkdir('made')", "Adam(lr=open('made', 'w'))", "adam:lr=open(1)"):
        call("explain", "net.py:Plain", "--optimizer", text, code=2)
    assert not (folder / "made").exists()


def test_help(call: Callable[..., str]):
    assert call() == call("--help") == call("help")
    assert call("help", "explain") == call("explain", "--help")
    assert call("cache") == call("cache", "--help") and "show" in call("cache")


def test_a_variable_that_is_no_setting(folder: Path):
    environment = {**os.environ, "NOEIRA_THREDS": "2"}
    found = python("summary", "net.py:Plain", cwd=folder, env=environment)
    assert found.returncode == 0
    assert found.stderr == "noeira: NOEIRA_THREDS is no setting; did you mean NOEIRA_THREADS?\n"


def test_a_setting_that_cannot_be_read_is_refused_at_once(folder: Path):
    compiled = [sys.executable, "-c", "from net import *; import noeira; noeira.compile(Plain)"]
    # What is in the cache already would need no look at this one.
    subprocess.run(compiled, cwd=folder, check=True)
    environment = {**os.environ, "NOEIRA_CACHE_MEGABYTES": "many"}
    for command in ([sys.executable, "-m", "noeira", "list"], compiled):
        found = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
        assert found.returncode == 1
        assert "NOEIRA_CACHE_MEGABYTES=many: expected a whole number" in found.stderr


def test_options_reach_the_step(call: Callable[..., str]):
    words = ("dump", "net.py:Plain", "--batch", "2", "--stage", "trace")
    text = call(*words, "--optimizer", "sgd:lr=0.5,momentum=0.9", "--loss", "MSE")
    assert "lr = 0.5" in text and '["momentum", 0.9]' in text and "mse(" in text
    text = call(*words, "--dtype", "f64", "--init", "Normal[0.0,0.5]", "--input", "7,4")
    assert "input %x: f64[2, 7, 4]" in text and "normal(0.0, 0.5)" in text
    text = call(*words, "--loss", "CrossEntropy:smoothing=0.25", "--optimizer", "none")
    assert "{smoothing = 0.25}" in text and "graph @plain.gradients" in text


def test_what_surrounds_the_optimizer_reaches_the_step(call: Callable[..., str]):
    words = ("dump", "net.py:Plain", "--batch", "4", "--stage", "update", "--accumulate", "2")
    clip = ("--clip", "clipnorm:max_norm=0.5", "--ema", "0.9")
    groups = ("--groups", "*.bias:lr_factor=0.1", "--groups", "0.weight:frozen=true")
    text = call(*words, *clip, *groups, "--schedule", "Cosine(epochs=3)")
    for found in (
        "%grads.mean = accumulate_gradients(",
        "clip_norm(%grads.mean) {max_norm = 0.5}",
        "cosine_rate(%lr, %adam.step, %epoch_steps) {length = 3}",
        'groups = [["*.bias", [["lr_factor", 0.1]]], ["0.weight", [["frozen", true]]]]',
        "ema{decay = 0.9}",
    ):
        assert found in text


def test_code_is_written_for_targets_that_have_a_text(call: Callable[..., str]):
    message = call("kernels", "net.py:Plain", "--target", "cuda-cpu", code=2)
    assert "cuda-cpu runs the text of cuda: write --target cuda" in message
    message = call("kernels", "net.py:Plain", "--target", "reference", code=2)
    assert "reference runs no kernels" in message


def test_names_in_any_case(call: Callable[..., str]):
    words = ("dump", "net.py:Plain", "--batch", "2", "--stage", "trace")
    exact = call(*words, "--loss", "MSE", "--optimizer", "adamw", "--init", "Xavier")
    assert call(*words, "--loss", "mse", "--optimizer", "AdamW", "--init", "xavier") == exact
    assert "graph @plain.forward" in call(*words, "--loss", "None")


def test_a_traceback_only_if_asked_for(folder: Path):
    found = python("explain", "net.py:Nope", cwd=folder)
    assert found.returncode == 2 and found.stderr.count("\n") == 1
    found = python("explain", "net.py:Nope", "--traceback", cwd=folder)
    assert found.returncode == 1 and "Traceback" in found.stderr


def test_a_reader_that_stops_early_is_no_error(folder: Path):
    command = f"{sys.executable} -m noeira dump net.py:Plain --format json | head -1"
    found = subprocess.run(command, shell=True, capture_output=True, text=True, cwd=folder)
    assert found.stdout == "{\n" and found.stderr == ""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
@pytest.mark.parametrize("words", [("explain", "net.py:Plain"), ("--help",), ("frob",)])
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_an_output_that_takes_no_more(words: tuple[str, ...], unbuffered: str, folder: Path):
    environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    command = [sys.executable, "-m", "noeira", *words]
    with open("/dev/full", "w") as full:
        found = subprocess.run(
            command, stdout=full, stderr=subprocess.PIPE, text=True, cwd=folder, env=environment
        )
    if words == ("frob",):
        assert found.returncode == 2 and "there is no command frob" in found.stderr
    else:
        assert found.returncode == 1
        assert found.stderr == "noeira: the output cannot be written: No space left on device\n"


def test_colours_are_for_terminals(monkeypatch: pytest.MonkeyPatch):
    class Terminal:
        """A stream that says it is a terminal."""

        def isatty(self) -> bool:
            return True

    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    stream = Terminal()
    assert terminal.paint("x", "red", stream) == "\x1b[31mx\x1b[0m"  # type: ignore[arg-type]
    monkeypatch.setenv("NO_COLOR", "1")
    assert terminal.paint("x", "red", stream) == "x"  # type: ignore[arg-type]
    with open(os.devnull, "w") as file:
        assert terminal.paint("x", "red", file) == "x"


def test_a_stream_that_cannot_show_every_sign(folder: Path):
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    found = python("explain", "net.py:Plain", cwd=folder, env=environment)
    assert found.returncode == 0 and "? 2 launches; write LinearReLU[4, 3] for 1" in found.stdout
