"""What a forked process needs: locks that nobody holds there, and to know that it is one."""

from __future__ import annotations

import os
import threading
import weakref

_locks: weakref.WeakSet[Lock] = weakref.WeakSet()
_forked = False


class Lock:
    """A re-entrant lock, held in a `with`. A child process has it unlocked: the threads that held
    it at the fork do not exist there.
    """

    def __init__(self) -> None:
        self.renew()
        _locks.add(self)

    def renew(self) -> None:
        """Be unlocked."""
        self.inner = threading.RLock()

    def __enter__(self) -> None:
        self.inner.acquire()

    def __exit__(self, *exception: object) -> None:
        self.inner.release()


def is_forked() -> bool:
    """Whether this process was forked after noeira was imported: the pool of threads that the
    parent has does not exist in it.
    """
    return _forked


def in_child() -> None:
    """What happens right after a fork."""
    global _forked
    _forked = True
    for lock in list(_locks):
        lock.renew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=in_child)
