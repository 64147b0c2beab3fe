"""A module type from a signature and a function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from noeira.nn import Module


def module(signature: str, run: Callable[..., Any], name: str = "Q", **space: Any) -> Any:
    """A module type with this signature and this trace."""
    body = {"signature": signature, "trace": classmethod(lambda _, s, *xs: run(s, *xs)), **space}
    return type(Module)(name, (space.pop("parent", Module),), body)
