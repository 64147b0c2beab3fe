"""A process that trains in children, which are killed at random moments and gone on with by others:
`FOLDER RUNS` prints what became of them, as JSON.

A child saves after each step, into one file. What a save does is made slow in it, so that many
children die while they write.
"""

from __future__ import annotations

import json
import mmap
import os
import random
import signal
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from resumed_training import data
from stateful_layers import Noise, RunningMean

import noeira
from noeira import disk
from noeira.nn import Adam, ClipNorm, CrossEntropy, Linear, Sequential, WarmupCosine
from noeira.runtime import safetensors
from noeira.runtime.safetensors import read

# Large enough that a file goes to the disk in several parts.
Net = Sequential[Linear[4, 48], RunningMean[48], Noise, Linear[48, 48], Linear[48, 3]]
STEPS = 6
# Where a child is: in one shared byte, for whoever kills it.
TRAINING, WRITING, FLUSHING, RENAMING = range(4)
DOING = ("training", "writing", "flushing", "renaming")
SLOWLY = 0.0002


def program() -> noeira.Program:
    """A program with every kind of state that a step can have, and data."""
    made = noeira.compile(
        Net,
        loss=CrossEntropy,
        optimizer=Adam(lr=0.01),
        schedule=WarmupCosine(epochs=4, warmup=2),
        clip=ClipNorm(0.5),
        accumulate=2,
        ema=0.9,
        target="reference",
        batch=6,
        dtype="f64",
        seed=5,
    )
    made.load(*data())
    return made


def train(trained: noeira.Program, path: Path) -> None:
    """Train from the file, if there is one, to the end, with a save after each step."""
    if path.exists():
        trained.restore(path)
    while trained.store.current("adam.step") < STEPS:
        trained.steps(1)
        trained.save(path)


def marked(where: mmap.mmap, doing: int, seconds: float, function: Callable[..., Any]) -> Any:
    """The same function, which says that it has been called, and takes longer."""

    def called(*given: Any) -> Any:
        where[0] = doing
        time.sleep(seconds)
        return function(*given)

    return called


def child(trained: noeira.Program, path: Path, where: mmap.mmap) -> None:
    """What a child does."""
    elements_of = safetensors.elements_of

    def slow_elements_of(array: np.ndarray) -> memoryview:
        if where[0] == WRITING:
            time.sleep(SLOWLY)
        return elements_of(array)

    safetensors.elements_of = slow_elements_of
    disk.held_beside = marked(where, WRITING, 0.0, disk.held_beside)
    os.fsync = marked(where, FLUSHING, SLOWLY * 4, os.fsync)
    os.replace = marked(where, RENAMING, SLOWLY * 4, os.replace)
    noeira.Program.steps = marked(where, TRAINING, SLOWLY * 4, noeira.Program.steps)
    train(trained, path)
    os._exit(0)


def killed(trained: noeira.Program, path: Path, where: mmap.mmap, delay: float) -> bool:
    """Let a child train, and kill it after so many seconds; False if it came to the end."""
    where[0] = TRAINING
    if not (pid := os.fork()):
        try:
            child(trained, path, where)
        except BaseException:
            traceback.print_exc()
        os._exit(1)
    time.sleep(delay)
    os.kill(pid, signal.SIGKILL)
    status = os.waitpid(pid, 0)[1]
    if os.WIFSIGNALED(status):
        return True
    assert os.WEXITSTATUS(status) == 0, "a child failed"
    return False


def main(folder: Path, runs: int) -> None:
    """Runs that are killed until they are at their end; and one that is not."""
    trained, where, moments = program(), mmap.mmap(-1, 1), random.Random(20261130)
    trained.prepare()
    deaths, leftovers = [0] * len(DOING), 0
    for run in range(runs):
        path = folder / str(run) / "net.safetensors"
        path.parent.mkdir()
        # On a busy machine a child may need longer to come to anything.
        longest = 0.15
        while killed(trained, path, where, moments.uniform(0.005, longest)):
            deaths[where[0]] += 1
            longest *= 1.1
            assert longest < 60, "training comes to no end"
            if path.exists():
                read(path)
            leftovers = max(leftovers, len(list(path.parent.iterdir())) - 1)
    whole = folder / "whole.safetensors"
    train(trained, whole)
    same = [(folder / str(run) / "net.safetensors").read_bytes() for run in range(runs)]
    files = {name for run in range(runs) for name in os.listdir(folder / str(run))}
    print(
        json.dumps(
            {
                "deaths": dict(zip(DOING, deaths, strict=True)),
                "same": sum(one == whole.read_bytes() for one in same),
                "leftovers": leftovers,
                "files": sorted(files),
                "updates": int(np.asarray(read(whole).tensors["%adam.step"])),
            }
        )
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
