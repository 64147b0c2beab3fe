"""How many threads a call has, and how many processors there are for them."""

from __future__ import annotations

import os

from noeira import config
from noeira.runtime.fork import is_forked


def thread_count() -> int:
    """Threads of a call: NOEIRA_THREADS, or the processors this process may run on; one
    after a fork.
    """
    if is_forked():
        return 1
    return config.THREADS.read() or processor_count()


def processor_count() -> int:
    """The processors that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
