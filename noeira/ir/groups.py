"""Groups of parameters: what those whose names match a pattern have of their own in training.

A group is a pattern, as a shell has them, and numbers by name: those of an optimizer's ranges, or
`frozen`, which leaves parameters as they are and wants no gradients of them. A parameter is in the
first group whose pattern matches its dotted name, if there is one: `*.bias`, `0.*`, `*`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from typing import Any, TypeAlias

from noeira.ir.layouts import Layout
from noeira.ir.ranges import Numbers
from noeira.ir.value import Value

# Of passes, whose text says them: [["*.bias", [["lr_factor", 0.1]]], ["0.*", [["frozen", true]]]].
Groups: TypeAlias = tuple[tuple[str, tuple[tuple[str, Any], ...]], ...]
FROZEN = ("frozen", True)


def group_of(name: str, groups: Groups) -> int | None:
    """The place of the group that a parameter is in; None if it is in none."""
    return next((at for at, (p, _) in enumerate(groups) if fnmatchcase(name, p)), None)


def own_numbers(name: str, groups: Groups) -> tuple[tuple[str, Any], ...]:
    """What a parameter has of its own."""
    at = group_of(name, groups)
    return () if at is None else groups[at][1]


def frozen(names: Iterable[str], groups: Groups) -> frozenset[str]:
    """Those of the parameters that stay as they are."""
    return frozenset(name for name in names if FROZEN in own_numbers(name, groups))


def trained(members: Sequence[Value], groups: Groups) -> list[Value]:
    """Those of the parameters that do not stay as they are."""
    still = frozen((member.name for member in members), groups)
    return [member for member in members if member.name not in still]


def freezes(groups: Groups) -> bool:
    """Whether there is a group that is frozen."""
    return any(FROZEN in own for _, own in groups)


def numbers_by_member(layout: Layout, groups: Groups, decays: bool) -> dict[str, Numbers]:
    """What an optimizer has for each member of a layout that is not frozen.

    decays: whether the optimizer has a weight decay, which acts on the members that are marked so,
    and on others where their group says so.
    """
    decays = decays or any(key == "weight_decay" for _, own in groups for key, _ in own)
    still = frozen((member.name for member in layout.members), groups)
    found = dict[str, Numbers]()
    for member in (one for one in layout.members if one.name not in still):
        own = own_numbers(member.name, groups)
        if decays and not member.decay and not any(key == "weight_decay" for key, _ in own):
            own = (*own, ("weight_decay", 0.0))
        found[member.name] = own
    return found
