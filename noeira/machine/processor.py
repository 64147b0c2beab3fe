"""What the system calls the processor."""

from __future__ import annotations

import platform
from pathlib import Path


def processor_name() -> str:
    """The processor's name, with family and model where the system tells them."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    facts = dict(line.replace("\t", "").split(":", 1) for line in lines if ":" in line)
    numbers = [facts[key].strip() for key in ("cpu family", "model") if key in facts]
    name = facts.get("model name", platform.machine()).strip()
    return f"{name} (family {' model '.join(numbers)})" if numbers else name
