"""Running a compiler: in its own session, with a time limit, its messages in English."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

from noeira.errors import CompilerError


def run(command: tuple[str, ...], folder: Path, seconds: float) -> tuple[int, str]:
    """Run a command in a folder; gives its status and all it printed. Raises CompilerError if it
    cannot start or hangs.
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
        output, _ = process.communicate(timeout=seconds)
    except BaseException as error:
        if os.name == "posix":
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
        process.wait()
        if isinstance(error, subprocess.TimeoutExpired):
            raise CompilerError(
                f"{shlex.join(command)} was ended: it ran for {seconds:.0f} s"
            ) from None
        raise
    finally:
        if process.stdout is not None:
            process.stdout.close()
    return process.returncode, output.decode("utf-8", "replace")


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
