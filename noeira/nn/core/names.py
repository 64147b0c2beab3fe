"""Names in `noeira.nn` and of a module's tensors: one message for each that there is not, with the
name that was meant.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from noeira.errors import CompositionError
from noeira.nn.core.parameters import joined

if TYPE_CHECKING:
    from noeira.nn.core.module import Module
    from noeira.nn.core.scope import Scope


def advice(name: str, known: Sequence[str]) -> str:
    """What follows `there is no Relu in noeira.nn`."""
    import difflib

    lower = name.lower()
    by_lower = {other.lower(): other for other in known}
    near = [lower.removesuffix("loss")]
    if near[0] not in by_lower:
        near = difflib.get_close_matches(lower, by_lower, n=1)
    if near:
        return f"; did you mean {by_lower[near[0]]}?"
    return (
        "; print(noeira.nn.__all__) shows what there is, and a layer of your own is a class, see "
        "help(noeira.nn.Module)"
    )


def no_param(module: type[Module], name: str) -> CompositionError:
    """The error for a tensor that a module does not have."""
    tensors = {**module.own_params, **module.own_buffers}
    if name in tensors and not tensors[name].exists(module):
        return CompositionError(str(tensors[name].absent(module)))
    known = ", ".join(n for n, tensor in tensors.items() if tensor.exists(module))
    return CompositionError(f"{module!r} has no parameter {name}; it has {known or 'none'}")


def owner_of(scope: Scope, name: str, module: type[Module], owner: str) -> str:
    """The place of the module called `owner` whose parameters and buffers another one is to have:
    in the module of a scope, or else in the nearest around it that has one with such tensors.

    Raises CompositionError if there is none.
    """
    every = (*module.parameters().items(), *module.buffers().items())
    wanted, around = {path: info.shape for path, info in every}, scope.tensors
    while True:
        found = [scope.values.get(joined(joined(around, owner), path)) for path in wanted]
        shapes = [None if value is None else value.type.shape for value in found]
        if shapes == list(wanted.values()):
            return joined(around, owner)
        if not around:
            raise no_owner(scope.module, name, module, owner)
        around = around.rpartition(".")[0]


def no_owner(around: type[Module], name: str, module: type[Module], owner: str) -> CompositionError:
    """The error for a node that shares the parameters of a module that there is not."""
    first = next(iter((*module.parameters(), *module.buffers())))
    return CompositionError(
        f"{name} of {around!r} has the parameters of {owner}, a {module!r}, and no module around "
        f"it has such, {owner}.{first} and the like: put a Node called {owner} into it, or into "
        "one around it"
    )
