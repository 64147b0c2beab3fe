"""Running a compiler: in its own session, with a time limit, its messages in English."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from noeira.errors import CompilerError

if TYPE_CHECKING:
    from subprocess import Popen


# What a build may take; it is ended then.
BUILD_SECONDS = 600
# Lines of a compiler's message that are shown.
MESSAGE_LINES = 40


def run(command: tuple[str, ...], folder: Path, seconds: float) -> tuple[int, str]:
    """Run a command in a folder; gives its status and all it printed. Raises CompilerError if it
    cannot start or hangs.
    """
    return run_all([command], folder, seconds)[0]


def run_all(
    commands: Sequence[tuple[str, ...]], folder: Path, seconds: float
) -> list[tuple[int, str]]:
    """Run commands at the same time in a folder; gives the status of each and what it printed.
    Raises CompilerError if one cannot start or hangs; then all are ended.
    """
    import subprocess

    end = time.monotonic() + seconds
    with ExitStack() as running:
        started = [running.enter_context(started_process(c, folder)) for c in commands]
        results = list[tuple[int, str]]()
        for command, process in zip(commands, started, strict=True):
            try:
                output, _ = process.communicate(timeout=max(0.0, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                raise CompilerError(
                    f"{shlex.join(command)} was ended: it ran for {seconds:.0f} s"
                ) from None
            results.append((process.returncode, output.decode("utf-8", "replace")))
        return results


@contextmanager
def started_process(command: tuple[str, ...], folder: Path) -> Iterator[Popen[bytes]]:
    """A running command, ended at the end if it still runs. Raises CompilerError if it cannot
    start.
    """
    import signal
    import subprocess

    # A session of its own, so that the compiler's own children end with it.
    try:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=surroundings(command, folder),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    except OSError as error:
        raise CompilerError(f"{command[0]} cannot be started: {error}") from None
    try:
        yield process
    except BaseException:
        if process.returncode is None:
            if os.name == "posix":
                os.killpg(process.pid, signal.SIGKILL)
            else:
                process.kill()
            process.wait()
        raise
    finally:
        if process.stdout is not None:
            process.stdout.close()


def surroundings(command: tuple[str, ...], folder: Path) -> dict[str, str]:
    """The environment that compilers run in: messages in English; a cache for zig where it cannot
    have its own.
    """
    environment = {**os.environ, "LC_ALL": "C"}
    if "ziglang" in command or "zig" in Path(command[0]).name:
        home = Path(
            environment.get("XDG_CACHE_HOME") or Path(environment.get("HOME", ""), ".cache")
        )
        existing = next((path for path in (home, *home.parents) if path.is_dir()), None)
        if existing is None or not home.is_absolute() or not os.access(existing, os.W_OK):
            environment.setdefault("ZIG_GLOBAL_CACHE_DIR", str(folder / "zig"))
    return environment


def first_lines(text: str, count: int) -> str:
    """The first lines of a message, with a note of how many were left out."""
    lines = text.strip().splitlines()
    left_out = [f"… and {len(lines) - count} lines more"] if len(lines) > count else []
    return "\n".join([*lines[:count], *left_out])
