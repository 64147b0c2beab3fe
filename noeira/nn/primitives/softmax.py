"""Softmax and its logarithm, along the last axis."""

from __future__ import annotations

from typing import ClassVar

from noeira.ir.graph import Value
from noeira.nn.core.module import Module
from noeira.nn.core.scope import Scope

__all__ = ["LogSoftmax", "Softmax"]


class AlongRows(Module):
    """The parent of layers without parameters that work along the last axis."""

    signature = "(*, D) -> (*, D)"
    op: ClassVar[str]

    @classmethod
    def trace(cls, scope: Scope, x: Value) -> Value:
        return scope.emit(cls.op, x)


class Softmax(AlongRows):
    """exp x / Σ exp x along the last axis, (*, D) -> (*, D)"""

    op = "softmax"


class LogSoftmax(AlongRows):
    """x − log Σ exp x along the last axis, (*, D) -> (*, D)"""

    op = "log_softmax"
