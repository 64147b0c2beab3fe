"""Every example runs and keeps its own promises."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from data_files import write

from noeira.datasets import cifar10

EXAMPLES = Path(__file__).parents[2] / "examples"
ARGUMENTS = {
    "cifar_cnn.py": ("--epochs", "1", "--folder", "run"),
    "cifar_resnet20.py": ("--epochs", "1", "--folder", "run"),
    "mnist_mlp.py": ("--epochs", "1", "--explain"),
}
EPOCH = r"test accuracy \d+\.\d % \(1 epoch, \d+(\.\d+)? m?s\)"
# The line that each ends with, or a part of it.
LAST_LINES = {
    "cifar_cnn.py": EPOCH,
    "cifar_resnet20.py": EPOCH,
    "fused_vs_unfused.py": r"after 100 steps every loss and every parameter has the same bits",
    "inspect_kernels.py": r"\}",
    "mnist_mlp.py": EPOCH,
    "new_op.py": r"loss \d\.\d{4} -> 0\.0\d{3} in 500 steps on target (cpu|reference)",
}


CONFIGS = ("mnist_mlp.toml",)


def test_no_example_is_forgotten() -> None:
    assert {path.name for path in EXAMPLES.glob("*.py")} == set(LAST_LINES)
    assert {path.name for path in EXAMPLES.glob("*.toml")} == set(CONFIGS)


def small_cifar10(folder: Path) -> None:
    """The files of CIFAR-10 with few images, each as bright as its class says."""
    random, contents = np.random.default_rng(0), dict[str, bytes]()
    for name in (*cifar10.TRAIN, *cifar10.TEST):
        records = random.integers(0, 60, (64, cifar10.RECORD)).astype(np.uint8)
        records[:, 0] = random.integers(0, 10, 64)
        records[:, 1:] += 20 * records[:, :1]
        contents[name] = records.tobytes()
    write(folder / "cifar10", contents, compress=False)


@pytest.mark.parametrize(
    "name",
    # A network of many convolutions is compiled for half a minute; `cifar_cnn.py` does the same.
    [pytest.param(n, marks=[pytest.mark.slow] * (n == "cifar_resnet20.py")) for n in LAST_LINES],
)
def test_example(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Away from the full data sets, wherever they may be.
    small_cifar10(tmp_path)
    for setting in ("XDG_CACHE_HOME", "NOEIRA_DATA"):
        monkeypatch.setenv(setting, str(tmp_path))
    command = [sys.executable, str(EXAMPLES / name), *ARGUMENTS.get(name, ())]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, encoding="utf-8")
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(LAST_LINES[name], done.stdout.rstrip().splitlines()[-1])
    if "--folder" in command:
        assert (tmp_path / "run" / "loss.png").stat().st_size > 5_000


@pytest.mark.parametrize("name", CONFIGS)
def test_config(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for setting in ("XDG_CACHE_HOME", "NOEIRA_DATA"):
        monkeypatch.setenv(setting, str(tmp_path))
    changes = [f"trainer.folder={tmp_path / 'run'}", "trainer.epochs=2"]
    words = [word for change in changes for word in ("--set", change)]
    command = [sys.executable, "-m", "noeira", "train", str(EXAMPLES / name), *words]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, encoding="utf-8")
    assert done.returncode == 0, done.stderr
    *_, result, files, best = done.stdout.splitlines()
    assert re.fullmatch(r"test accuracy [89]\d\.\d % \(2 epochs, [\d.]+ m?s\)", result)
    assert files.startswith(f"{tmp_path / 'run'}: last.safetensors, best.safetensors")
    assert best.startswith("best.safetensors: step ")
    assert len((tmp_path / "run" / "metrics.csv").read_text().splitlines()) == 3
