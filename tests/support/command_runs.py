"""How tests run noeira as a program."""

from __future__ import annotations

import subprocess
import sys


def python(*words: str, **options: object) -> subprocess.CompletedProcess[str]:
    """`python -m noeira` in a process of its own."""
    command = [sys.executable, "-m", "noeira", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, **options)  # type: ignore[call-overload]
