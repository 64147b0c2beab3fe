"""noeira: a deep-learning compiler you can read. A network is a Python type; it becomes C or CUDA
that trains it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from noeira import nn
    from noeira.compiler import compile
    from noeira.errors import (
        CheckpointError,
        CompilerError,
        CompositionError,
        DataError,
        DeviceError,
        DtypeError,
        FusionError,
        NoeiraError,
        NotFiniteError,
        ParseError,
        ShapeError,
        VerifyError,
    )
    from noeira.nn.core.trace import trace
    from noeira.report.explain import explain
    from noeira.report.suggest import suggest
    from noeira.report.summary import summary
    from noeira.runtime.program import Program
    from noeira.training import Trainer, TrainResult

# Public name -> where it lives; imported when first used, so that `import noeira` costs nothing.
PLACES = {
    "compile": "noeira.compiler",
    "trace": "noeira.nn.core.trace",
    "Trainer": "noeira.training",
    "TrainResult": "noeira.training",
    "Program": "noeira.runtime.program",
    "explain": "noeira.report.explain",
    "suggest": "noeira.report.suggest",
    "summary": "noeira.report.summary",
    "CheckpointError": "noeira.errors",
    "CompilerError": "noeira.errors",
    "CompositionError": "noeira.errors",
    "DataError": "noeira.errors",
    "DeviceError": "noeira.errors",
    "DtypeError": "noeira.errors",
    "FusionError": "noeira.errors",
    "NoeiraError": "noeira.errors",
    "NotFiniteError": "noeira.errors",
    "ParseError": "noeira.errors",
    "ShapeError": "noeira.errors",
    "VerifyError": "noeira.errors",
}

__all__ = [
    "CheckpointError",
    "CompilerError",
    "CompositionError",
    "DataError",
    "DeviceError",
    "DtypeError",
    "FusionError",
    "NoeiraError",
    "NotFiniteError",
    "ParseError",
    "Program",
    "ShapeError",
    "TrainResult",
    "Trainer",
    "VerifyError",
    "compile",
    "explain",
    "nn",
    "suggest",
    "summary",
    "trace",
]


def __getattr__(name: str) -> Any:
    if name == "nn":
        return importlib.import_module("noeira.nn")
    if name not in PLACES:
        raise AttributeError(f"module 'noeira' has no attribute {name!r}")
    value = getattr(importlib.import_module(PLACES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
