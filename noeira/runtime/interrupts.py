"""Ctrl-C: a wish to stop, for what ends soon by itself; put off, for what must not be left half
done; or let through, for what may never end.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any


class Interrupts:
    """While open, the first Ctrl-C only sets `wanted`; a second one raises KeyboardInterrupt at
    once.
    """

    def __init__(self) -> None:
        self.wanted = False
        self.before: Any = None

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is threading.main_thread():
            self.before = signal.signal(signal.SIGINT, self.note)
        return self

    def note(self, number: int, frame: FrameType | None) -> None:
        """The handler."""
        if self.wanted:
            raise KeyboardInterrupt
        self.wanted = True

    def __exit__(self, *exception: object) -> None:
        if self.before is not None:
            signal.signal(signal.SIGINT, self.before)


class PutOff:
    """In a `with`, Ctrl-C waits until the end; there it does what it would have done. Other threads
    than the main one get no signals, and nothing is done for them.
    """

    def __init__(self) -> None:
        self.before: Any = None
        self.came: tuple[int, FrameType | None] | None = None

    def __enter__(self) -> PutOff:
        if threading.current_thread() is threading.main_thread():
            before = signal.getsignal(signal.SIGINT)
            if callable(before):
                self.before = before
                signal.signal(signal.SIGINT, self.note)
        return self

    def note(self, number: int, frame: FrameType | None) -> None:
        """The handler."""
        self.came = number, frame

    def __exit__(self, *exception: object) -> None:
        if self.before is not None:
            signal.signal(signal.SIGINT, self.before)
            if self.came is not None:
                self.before(*self.came)


@contextmanager
def let_through() -> Iterator[None]:
    """In a `with`, Ctrl-C ends the process at once: Python would answer it only when a kernel has
    returned, and one that somebody edited may never do that. For commands, not for programs.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
