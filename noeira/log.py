"""noeira's own messages: one logger, called `noeira`."""

from __future__ import annotations


def log(level: str, message: str, *values: object) -> None:
    """One line in noeira's logger; logging is imported only when there is something to say."""
    import logging

    getattr(logging.getLogger("noeira"), level)(message, *values)


_said: set[str] = set()


def log_once(level: str, message: str) -> None:
    """One line, the first time only."""
    if message not in _said:
        _said.add(message)
        log(level, "%s", message)
