"""Training that is killed, or has no room on the disk, goes on from its last checkpoint as if
nothing had happened.
"""

from __future__ import annotations

import errno
import json
import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import pytest
from killed_training import STEPS
from resumed_training import data, program

from noeira.disk import replacing_for_good
from noeira.errors import CheckpointError

PATH = os.pathsep.join(sys.path)


@pytest.mark.parametrize(
    "runs", [2, pytest.param(100, marks=pytest.mark.slow)], ids=["some", "many"]
)
def test_training_that_is_killed_ends_in_the_same_bits(tmp_path: Path, runs: int) -> None:
    command = [sys.executable, "-m", "killed_training", str(tmp_path), str(runs)]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=600, env=os.environ | {"PYTHONPATH": PATH}
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    deaths = found["deaths"]
    assert found["same"] == runs and found["updates"] == STEPS
    assert found["files"] == ["net.safetensors"], "temporary files were left at the end"
    assert found["leftovers"] <= 1, "temporary files piled up"
    if runs >= 100:
        writing = deaths["writing"] + deaths["flushing"] + deaths["renaming"]
        assert sum(deaths.values()) >= runs and writing >= 50 and min(deaths.values()) >= 5, deaths


@contextmanager
def file_size_limit(size: int) -> Iterator[None]:
    """In a `with`, no file of this process can be larger, as on a disk with so much room."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("share", [0.0, 0.5, 0.9])
def test_a_full_disk_leaves_the_checkpoint_that_was_there(tmp_path: Path, share: float) -> None:
    trained, path = program("reference"), tmp_path / "net.safetensors"
    trained.load(*data())
    trained.steps(3)
    trained.save(path)
    good = path.read_bytes()
    trained.steps(1)
    with (
        file_size_limit(int(share * len(good))),
        pytest.raises(CheckpointError, match=r"net\.safetensors cannot be written: File too large"),
    ):
        trained.save(path)
    assert path.read_bytes() == good and os.listdir(tmp_path) == ["net.safetensors"]
    trained.restore(path)
    assert trained.loaded().done == 3
    trained.save(path)
    assert path.read_bytes() == good


@pytest.mark.parametrize("function", ["fsync", "replace"])
def test_a_disk_that_refuses_at_the_end_leaves_it_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, function: str
) -> None:
    trained, path = program("reference"), tmp_path / "net.safetensors"
    trained.save(path)
    good = path.read_bytes()

    def refuse(*given: Any) -> NoReturn:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, function, refuse)
    trained.params["0.bias"][...] = 1
    with pytest.raises(CheckpointError, match="cannot be written: No space left on device"):
        trained.save(path)
    assert path.read_bytes() == good and os.listdir(tmp_path) == ["net.safetensors"]


def test_a_file_is_on_the_disk_before_it_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls, place = list[str](), tmp_path / "new" / "net"
    fsync, replace = os.fsync, os.replace

    def noted(descriptor: int) -> None:
        calls.append(f"flush {Path(os.readlink(f'/proc/self/fd/{descriptor}')).name[:8]}")
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", noted)
    monkeypatch.setattr(os, "replace", lambda a, b: calls.append("rename") or replace(a, b))
    with replacing_for_good(place) as file:
        file.write(b"content")
    assert calls == ["flush .net." + calls[0][11:], "rename", "flush new", calls[3]]
    assert calls[3] == f"flush {tmp_path.name[:8]}" and place.read_bytes() == b"content"


def test_what_dead_writers_left_is_removed_and_living_ones_are_not_disturbed(
    tmp_path: Path,
) -> None:
    place = tmp_path / "net"
    # A dead one's, with the number of a process that is alive; and files that are none of them.
    (tmp_path / f".net.{os.getpid()}-0123abcd").write_bytes(b"half")
    others = [".net.txt", ".net2.1-0123abcd", "net.1-0123abcd", ".net.1-0123abcd.gz"]
    for name in others:
        (tmp_path / name).write_bytes(b"mine")
    with replacing_for_good(place) as slow:
        slow.write(b"slow")
        with replacing_for_good(place) as quick:
            quick.write(b"quick")
        assert place.read_bytes() == b"quick"
    assert place.read_bytes() == b"slow"
    assert sorted(os.listdir(tmp_path)) == sorted(["net", *others])
