"""What the class statement of a module may say: one message for each thing that would not do what
it seems to.
"""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Any

from noeira.errors import CompositionError
from noeira.nn.core.parameters import Declaration
from noeira.nn.core.signature import parse_signature
from noeira.nn.core.slots import Derived, Slot

if TYPE_CHECKING:
    from noeira.nn.core.module import Module

# What a module is there to define; every other name of Module is its own.
OPEN = frozenset(
    {
        "signature",
        "trace",
        "children",
        "governs",
        "compose",
        "check",
        "refuse",
        "make",
        "adjusted",
        "because",
        "misfit",
        "role",
        "in_turn",
        "keeps_batch",
        "placeholders",
        "pytorch_names",
    }
)
# What a class declares, beside its methods.
DECLARED = (Slot, Declaration, Derived)
# What other frameworks call it.
ELSEWHERE = {
    "__init__": "type parameters are declared, IN = size(), and tensors, weight = Param(…)",
    "forward": "what it computes is the classmethod trace(cls, scope, x)",
    "__call__": "what it computes is the classmethod trace(cls, scope, x)",
}


def check_declaration(cls: type[Module]) -> None:
    """Raises CompositionError for a class that says something it cannot."""
    own = cls.__dict__
    if cls.values is not None and any(isinstance(value, Slot) for value in own.values()):
        raise CompositionError(
            f"{cls.__name__}: type parameters belong on a child of {cls.family.__name__}, "
            f"not of {cls.family.__name__}[…]"
        )
    for name, value in own.items():
        if isinstance(value, Slot) and name != name.upper():
            raise CompositionError(
                f"{cls.__name__}.{name}: a type parameter is written in capitals: {name.upper()}"
            )
    for name, value in own.items():
        check_name(cls, name, value)
        if isinstance(value, Declaration):
            value.check(cls)
    if "signature" in own:
        parse_signature(cls.signature, cls.__name__)
    for name, method in own.items():
        if name in OPEN and name != "trace" and inspect.isfunction(method):
            places = ", ".join(["cls", *list(inspect.signature(method).parameters)[1:]])
            raise CompositionError(
                f"{cls.__name__}.{name} is no classmethod: write @classmethod def {name}({places})"
            )
    if "trace" in own:
        check_trace(cls, own["trace"])


def check_name(cls: type[Module], name: str, value: Any) -> None:
    """Raises CompositionError for a name that means something else already."""
    if name in ELSEWHERE:
        raise CompositionError(f"{cls.__name__}: a module has no {name}; {ELSEWHERE[name]}")
    owner, declares = "", isinstance(value, DECLARED)
    if name.startswith("_") and not declares:
        return
    if name in names_of_module() or (declares and name in OPEN):
        owner = "Module"
    elif declares and not name.isupper():
        before = next((c for c in cls.__mro__[1:] if name in c.__dict__), None)
        if before is not None and not isinstance(before.__dict__[name], DECLARED):
            owner = before.__name__
    if owner:
        raise CompositionError(
            f"{cls.__name__}: {name} is a name of {owner}'s own; call it otherwise"
        )


@functools.cache
def names_of_module() -> frozenset[str]:
    """The names that mean the same for every module: on its type, and on its instances."""
    from noeira.nn.core.instance import Instance
    from noeira.nn.core.module import Module

    found = {name for cls in (Module, Instance, type(Module)) for name in vars(cls)}
    found |= set(Instance.__annotations__)
    return frozenset(name for name in found if not name.startswith("__")) - OPEN


def check_trace(cls: type[Module], trace: Any) -> None:
    """Raises CompositionError for a trace that could not be called with the inputs of the
    signature.
    """
    inputs = parse_signature(cls.signature, cls.__name__).inputs if cls.signature else None
    wanted = ", ".join(["cls", "scope", *names_of_inputs(len(inputs or (None,)))])
    written = f"write @classmethod def trace({wanted})"
    if not isinstance(trace, classmethod):
        raise CompositionError(f"{cls.__name__}.trace is no classmethod: {written}")
    places = list(inspect.signature(trace.__func__).parameters.values())
    if inputs is None or any(p.kind is p.VAR_POSITIONAL for p in places):
        return
    by_place = [p for p in places if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    needed = [p for p in by_place if p.default is p.empty]
    if not len(needed) <= len(inputs) + 2 <= len(by_place):
        raise CompositionError(
            f"{cls.__name__}.trace takes {', '.join(p.name for p in by_place)}, but its signature "
            f"{cls.signature} has {len(inputs)} input{'s' if len(inputs) > 1 else ''}: {written}"
        )


def names_of_inputs(count: int) -> list[str]:
    """x, or x0, x1, …"""
    return ["x"] if count == 1 else [f"x{index}" for index in range(count)]
