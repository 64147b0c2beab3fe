"""Losses, optimizers and what goes with them, and initial values, as they are written on a command
line.

    adam   Adam   adam:lr=0.001,beta1=0.8   "Adam(lr=1e-3)"   "CrossEntropy.of(smoothing=0.1)"
    cosine:epochs=20   clipnorm:max_norm=1   "*.bias:lr_factor=0.1"   "Normal[0.0, 0.02]"
    losses.py:Huber   "losses.py:Huber.of(delta=2)"   none

Nothing is evaluated but names, brackets, calls and literals.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from typing import Any

import noeira.nn
from noeira.commands.support.network import load_module
from noeira.commands.support.usage import UsageError, known_name
from noeira.nn import Clipping, Group, Initializer, Loss, Module, Optimizer, Schedule
from noeira.nn.clipping import clipping
from noeira.nn.core.init import initializer
from noeira.nn.losses.base import loss_type
from noeira.nn.optimizer import optimizer as optimizer_value
from noeira.nn.schedule import schedule as schedule_value
from noeira.report.vocabulary import kind_of

NONE = "none"
# How one of a kind is written, for messages.
EXAMPLES = {
    "loss": "CrossEntropy",
    "optimizer": "Adam(lr=0.001)",
    "schedule": "Cosine(epochs=20)",
    "clipping": "ClipNorm(1.0)",
    "initialiser": "Normal[0.0, 0.02]",
    "metric": "TopK[5]",
    "group": "Group(frozen=true)",
    "rule to stop by": "EarlyStopping(patience=5)",
}
WORDS = {"true": True, "false": False}


def exported(parent: type) -> dict[str, Any]:
    """The public types of a kind that can be written, by name."""
    found = {name: getattr(noeira.nn, name) for name in noeira.nn.__all__}
    return {
        name: kind
        for name, kind in found.items()
        if isinstance(kind, type) and issubclass(kind, parent) and kind_of(kind)
    }


LOSSES, OPTIMIZERS, INITIALIZERS = map(exported, (Loss, Optimizer, Initializer))
SCHEDULES, CLIPPINGS = map(exported, (Schedule, Clipping))


def loss(text: str) -> Any:
    """A loss type, or None."""
    return None if text.lower() == NONE else loss_type(value(text, "loss", LOSSES, NONE))


def optimizer(text: str) -> Any:
    """An optimizer, or None."""
    if text.lower() == NONE:
        return None
    return optimizer_value(value(text, "optimizer", OPTIMIZERS, NONE))


def schedule(text: str) -> Any:
    """A schedule of the learning rate."""
    return schedule_value(value(text, "schedule", SCHEDULES))


def clip(text: str) -> Any:
    """How gradients are clipped."""
    return clipping(value(text, "clipping", CLIPPINGS))


def group(text: str) -> tuple[str, Group]:
    """A group of parameters, by the pattern of their names."""
    pattern, colon, options = text.partition(":")
    if not colon:
        raise UsageError(f"{text}: write PATTERN:key=value, as in '*.bias:lr_factor=0.1'")
    return pattern, Group(**keywords(options, text, pattern))


def initial(text: str) -> Any:
    """An initialiser."""
    return initializer(value(text, "initialiser", INITIALIZERS))


def value(text: str, what: str, known: Mapping[str, Any], *words: str) -> Any:
    """What a text stands for: one of the known things, or one in a file or module.

    words: what else may be written there. Raises UsageError for what cannot be read.
    """
    place, colon, rest = text.partition(":")
    if not colon:
        return evaluated(text, what, known, words)
    if is_place(place):
        names = vars(load_module(place))
        name, colon, options = rest.partition(":")
        if colon and name.isidentifier():
            return with_options(own(names, place, name), options, text, f"{place}:{name}")
        try:
            found = parsed(rest, text, what)
        except UsageError:
            raise UsageError(
                f"{text}: expected a name after the colon, as in {place}:Name, with options "
                f"{place}:Name:key=value or '{place}:Name(key=value)'"
            ) from None
        return Reader(text, what, lambda name: own(names, place, name)).read(found)
    kind = known[known_name(place, [*known, *words], what)]
    return with_options(kind, rest, text, place)


def with_options(kind: Any, options: str, whole: str, name: str) -> Any:
    """A thing with the options that stand after its name and a colon."""
    if not isinstance(kind, type):
        raise UsageError(f"{whole}: {name} is made already, and takes no options")
    given = keywords(options, whole, name)
    return kind.of(**given) if issubclass(kind, Module) else kind(**given)


def is_place(text: str) -> bool:
    """Whether a text before a colon is a file or a module."""
    return bool(re.search(r"[./\\]", text)) and "(" not in text and "[" not in text


def evaluated(text: str, what: str, known: Mapping[str, Any], words: tuple[str, ...]) -> Any:
    """A known thing, with its parameters or options."""
    reader = Reader(text, what, lambda name: known[known_name(name, [*known, *words], what)])
    return reader.read(parsed(text, text, what))


def parsed(text: str, whole: str, what: str) -> ast.expr:
    """An expression of Python. Raises UsageError."""
    try:
        return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError):
        raise unreadable(whole, what) from None


def unreadable(text: str, what: str) -> UsageError:
    """The error for a text that names nothing."""
    return UsageError(f"{text} cannot be read: write a name, as in {EXAMPLES[what]}")


def keywords(text: str, whole: str, name: str) -> dict[str, Any]:
    """`lr=0.001,beta1=0.8`"""
    try:
        found = ast.parse(f"f({text})", mode="eval").body
    except (SyntaxError, ValueError):
        found = None
    if not isinstance(found, ast.Call) or found.args or any(k.arg is None for k in found.keywords):
        raise UsageError(f"options are written {name}:key=value,key=value")
    return {str(k.arg): literal(k.value) for k in found.keywords}


def own(names: Mapping[str, Any], place: str, name: str) -> Any:
    """What a user's module has under a name."""
    if name not in names:
        types = [n for n, v in names.items() if isinstance(v, type)]
        made = [n for n in types if names[n].__module__ == names["__name__"]]
        raise UsageError(f"{place} has no {name}; it has {', '.join(made) or 'no types'}")
    return names[name]


def literal(node: ast.expr) -> Any:
    """A number, text or truth value. Raises UsageError."""
    if isinstance(node, ast.Name) and node.id.lower() in WORDS:
        return WORDS[node.id.lower()]
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError):
        raise UsageError(f"{ast.unparse(node)!r} is not a number") from None


class Reader:
    """Reads an expression of names, brackets, `.of(…)` and calls; what: the kind of thing."""

    def __init__(self, text: str, what: str, find: Any) -> None:
        self.text, self.what, self.find = text, what, find

    def read(self, node: ast.expr) -> Any:
        """What it stands for. Raises UsageError, or the error of what is called."""
        if isinstance(node, ast.Name):
            return self.find(node.id)
        if isinstance(node, ast.Subscript):
            inside = node.slice
            items = inside.elts if isinstance(inside, ast.Tuple) else [inside]
            kind = self.with_parameters(node.value, "__class_getitem__")
            return kind[tuple(map(self.parameter, items))]
        if isinstance(node, ast.Call):
            options = {str(k.arg): literal(k.value) for k in node.keywords if k.arg}
            return self.called(node.func)(*map(literal, node.args), **options)
        raise unreadable(self.text, self.what)

    def parameter(self, node: ast.expr) -> Any:
        """What stands in brackets: a number, text or truth value, or a type, as in
        `Losses[CrossEntropy, MSE]`.
        """
        if isinstance(node, ast.Name) and node.id.lower() in WORDS:
            return literal(node)
        is_type = isinstance(node, (ast.Name, ast.Subscript, ast.Call))
        return self.read(node) if is_type else literal(node)

    def called(self, node: ast.expr) -> Any:
        """What is called: a type, or its `of`."""
        if isinstance(node, ast.Attribute) and node.attr == "of":
            return self.with_parameters(node.value, "of").of
        return self.read(node)

    def with_parameters(self, node: ast.expr, way: str) -> Any:
        """A type that takes parameters in this way. Raises UsageError for any other."""
        found = self.read(node)
        if not hasattr(found, way):
            raise UsageError(f"{self.text} cannot be read: write it as in {EXAMPLES[self.what]}")
        return found
