"""What networks are written with, and the ops they become: each with its formula, taken from the
docstring of its class.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from dataclasses import MISSING, dataclass, fields
from typing import Any

import noeira.nn
from noeira.ir.op import OPS, Op, op
from noeira.nn import (
    Clipping,
    ElementwiseLoss,
    Group,
    Initializer,
    Loss,
    Metric,
    Module,
    Optimizer,
    Schedule,
    TimedSchedule,
)
from noeira.nn.combinators.aliases import Short
from noeira.nn.combinators.container import Container
from noeira.nn.combinators.declarations import Declaration
from noeira.nn.core.binding import usage
from noeira.nn.models.network import Network

# Kinds in the order in which they are listed, and what each is.
KINDS = {
    "layers": "networks are made of these",
    "combinators": "types made of types",
    "declarations": "what graphs of modules are written in",
    "models": "whole networks that have names",
    "fused layers": "short names of common Fused[…]: one kernel",
    "losses": "of (prediction, target)",
    "metrics": "of (prediction, target): (sum, count)",
    "optimizers": "p: a parameter, g: its gradient, t: updates so far, plus 1",
    "schedules": "of the learning rate lr; u: the steps or epochs that are over",
    "clipping": "g: the gradients",
    "training": "values of options of a training",
    "initialisers": "of weights; biases begin with 0",
    "ops": "what graphs are made of; gradients of element-wise ops are made on demand: relu.d0",
}


@dataclass(frozen=True)
class Word:
    """A type or an op: its name, how it is written, what it takes and gives, its docstring."""

    kind: str
    name: str
    written: str
    signature: str
    text: str

    @property
    def formula(self) -> str:
        """The first sentence of the docstring, without the ways to write the type."""
        first = " ".join(self.text.partition("\n\n")[0].split())
        bare = re.sub(r"^`[^`]*`[^:]*: ", "", first)
        sentence = re.split(r"(?<!et al)\.(?: |$)", bare)[0]
        return re.split(r": `| -> \(\)\.", sentence)[0]

    def __str__(self) -> str:
        signature = f"   {self.signature}" if self.signature else ""
        return f"{self.written}{signature}\n\n{self.text}"


def vocabulary() -> tuple[Word, ...]:
    """Everything there is, by kind; ops of a user's own too, once their file was run."""
    words = [*sorted(types(), key=lambda word: word.name.lower()), *ops()]
    return tuple(word for kind in KINDS for word in words if word.kind == kind)


def types() -> Iterator[Word]:
    """The public types of `noeira.nn` that can stand in a network or beside it."""
    for name in noeira.nn.__all__:
        found = getattr(noeira.nn, name)
        kind = kind_of(found) if isinstance(found, type) else ""
        if kind:
            yield word_of(found, kind)


def word_of(found: type, kind: str) -> Word:
    """What there is to say of a type."""
    signature = str(getattr(found, "signature", None) or "")
    return Word(kind, found.__name__, written(found), signature, inspect.getdoc(found) or "")


# What types of each kind derive from, the nearest parent first.
PARENTS = {
    Optimizer: "optimizers",
    Schedule: "schedules",
    Clipping: "clipping",
    Initializer: "initialisers",
    Loss: "losses",
    Metric: "metrics",
    Network: "models",
    Short: "fused layers",
    Container: "combinators",
    Declaration: "declarations",
    Module: "layers",
}


def kind_of(found: type) -> str:
    """The kind of a type; "" for parents, and for what only describes."""
    if found in (*PARENTS, ElementwiseLoss, TimedSchedule):
        return ""
    if found is Group:
        return "training"
    return next((kind for parent, kind in PARENTS.items() if issubclass(found, parent)), "")


def written(found: Any) -> str:
    """`Linear[IN, OUT]`, `Adam(lr=0.001, …)`"""
    if issubclass(found, Module):
        return usage(found)
    if issubclass(found, Declaration):
        return found.like
    own = fields(found)
    if issubclass(found, Initializer):
        names = ", ".join(field.name for field in own)
        return f"{found.__name__}[{names}]" if names else found.__name__
    options = ("…" if field.default is MISSING else field.default for field in own)
    pairs = (f"{field.name}={value}" for field, value in zip(own, options, strict=True))
    return f"{found.__name__}({', '.join(pairs)})"


def ops() -> Iterator[Word]:
    """The ops; slopes are made on demand."""
    # Asking for one has all files of ops imported.
    op("relu")
    for name, found in OPS.items():
        yield Word("ops", name, call_text(found), "", inspect.getdoc(type(found)) or "")


def call_text(found: Op) -> str:
    """`linear(x, weight, bias)`"""
    return f"{found.name}({', '.join(found.operands)})"
