"""noeira: a deep-learning compiler you can read. A network is a Python type; it becomes C or CUDA
that trains it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from noeira import errors
from noeira.errors import *

__version__ = "0.1.0"

if TYPE_CHECKING:
    from noeira import nn as nn
    from noeira.compiler import compile as compile
    from noeira.report.explain import explain as explain
    from noeira.report.suggest import suggest as suggest
    from noeira.report.summary import summary as summary
    from noeira.runtime.program import Program as Program
    from noeira.tracing import trace as trace
    from noeira.training import Polyak as Polyak
    from noeira.training import Trainer as Trainer
    from noeira.training import TrainResult as TrainResult

# Public name -> where it lives; imported when first used, so that `import noeira` costs nothing.
PLACES = {
    "compile": "noeira.compiler",
    "trace": "noeira.tracing",
    "Polyak": "noeira.training",
    "Trainer": "noeira.training",
    "TrainResult": "noeira.training",
    "Program": "noeira.runtime.program",
    "explain": "noeira.report.explain",
    "suggest": "noeira.report.suggest",
    "summary": "noeira.report.summary",
}

__all__ = sorted(["nn", *PLACES, *errors.__all__])  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    if name == "nn":
        return importlib.import_module("noeira.nn")
    if name not in PLACES:
        from noeira.habits import refuse_name

        refuse_name("noeira", name, lambda: elsewhere(name))
    value = getattr(importlib.import_module(PLACES[name]), name)
    globals()[name] = value
    return value


def elsewhere(name: str) -> str:
    """Where a name is that is not here."""
    from noeira import nn, training

    for module in (nn, training):
        if name in module.__all__:
            return f": it is in {module.__name__}"
    return f"; there are nn, {', '.join(PLACES)}"


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
