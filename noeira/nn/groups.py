"""Groups of parameters, as users give them: patterns of names, and what is other for these."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from noeira.errors import OptionError
from noeira.ir.bounded import NOT_NEGATIVE
from noeira.ir.groups import FROZEN, Groups, group_of
from noeira.ir.numbers import finite_number
from noeira.nn.core.module import Module
from noeira.nn.core.option_value import OptionValue

__all__ = ["Group"]


@dataclass(frozen=True)
class Group(OptionValue):
    """What the parameters of a group have of their own in training.

    lr_factor: what the learning rate is multiplied by. weight_decay: in place of the optimizer's;
    also for biases and others that decay does not act on by default. frozen: they stay as they are,
    have no gradients, and count for no norm. Raises OptionError.
    """

    lr_factor: float = 1.0
    weight_decay: float | None = None
    frozen: bool = False
    bounds: ClassVar[Mapping[str, tuple[float, float]]] = {"lr_factor": NOT_NEGATIVE}

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.weight_decay is not None:
            number = finite_number(self.weight_decay)
            if number is None or number < 0:
                raise self.out_of_range("weight_decay", "0 or greater")
            object.__setattr__(self, "weight_decay", number)
        if self.frozen and (self.lr_factor != 1.0 or self.weight_decay is not None):
            raise OptionError("Group: what is frozen has no learning rate and no weight decay")
        if not self.numbers():
            raise OptionError(
                "Group() says nothing: give lr_factor=…, weight_decay=… or frozen=True"
            )

    def numbers(self) -> tuple[tuple[str, Any], ...]:
        """The same as passes have it."""
        if self.frozen:
            return (FROZEN,)
        found: list[tuple[str, Any]] = []
        if self.lr_factor != 1.0:
            found.append(("lr_factor", self.lr_factor))
        if self.weight_decay is not None:
            found.append(("weight_decay", self.weight_decay))
        return tuple(found)


def groups_of(value: Any) -> Groups:
    """What a user gave as groups, by pattern. Raises OptionError."""
    if not isinstance(value, Mapping):
        raise OptionError(
            'groups says by name pattern what is other: groups={"*.bias": Group(lr_factor=0.1)}, '
            f"not {value!r}"
        )
    for pattern, group in value.items():
        if not isinstance(pattern, str) or not pattern:
            raise OptionError(
                f"groups: a pattern of names is a text such as '0.*', not {pattern!r}"
            )
        if not isinstance(group, Group):
            raise OptionError(
                f"groups: {pattern!r} must be a Group(lr_factor=…, weight_decay=…, frozen=…), "
                f"not {group!r}"
            )
    return tuple((pattern, group.numbers()) for pattern, group in value.items())


def frozen_groups(net: type[Module]) -> Groups:
    """The parameters that types inside a network, such as `StopGradParams`, leave as they are: a
    group for each, or for all below a path.
    """
    infos = net.parameters()
    free = [path for path, info in infos.items() if not info.frozen]
    found = dict[str, None]()
    for path in (path for path, info in infos.items() if info.frozen):
        parts = path.split(".")
        fronts = [".".join(parts[:count]) + "." for count in range(1, len(parts))]
        own = (f"{f}*" for f in fronts if not any(other.startswith(f) for other in free))
        found[next(own, path) if free else "*"] = None
    return tuple((pattern, (FROZEN,)) for pattern in found)


def check_groups(groups: Groups, names: list[str]) -> None:
    """Raises OptionError for a group that no parameter is in, or if all parameters are frozen."""
    members = [group_of(name, groups) for name in names]
    for at, (pattern, _) in enumerate(groups):
        if at in members:
            continue
        alone = [name for name in names if group_of(name, ((pattern, ()),)) is not None]
        if alone:
            before = groups[group_of(alone[0], groups) or 0][0]
            raise OptionError(
                f"groups: all that {pattern!r} matches, such as {alone[0]}, is in the group of "
                f"{before!r} before it: the first that matches counts, so write it later"
            )
        near = difflib.get_close_matches(pattern, names, n=1) or names[:1]
        raise OptionError(f"groups: {pattern!r} matches no parameter; there is {near[0]}, for one")
    if all(at is not None and FROZEN in groups[at][1] for at in members):
        raise OptionError("groups: every parameter is frozen, so there is nothing to train")
