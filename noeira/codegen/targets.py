"""Targets by their names in plans."""

from __future__ import annotations

from noeira.codegen.c.target import CTarget
from noeira.codegen.cuda.target import CudaTarget
from noeira.codegen.target import Target
from noeira.errors import DeviceError
from noeira.ir.choices import NO_CHOICES, Choices

# The targets of each language, by its name.
KINDS: dict[str, type[Target]] = {kind.language: kind for kind in (CTarget, CudaTarget)}


def target_named(name: str, choices: Choices = NO_CHOICES) -> Target:
    """The target `c avx512` or `cuda sm_90`, with a table of choices.

    Raises DeviceError for one that there is not.
    """
    language, _, machine = name.partition(" ")
    kind = KINDS.get(language)
    if kind is None or machine not in kind.machines:
        named = (kind,) if kind else KINDS.values()
        known = ", ".join(f"{one.language} {name}" for one in named for name in one.machines)
        raise DeviceError(f"there is no target {name!r}; there are {known}")
    return kind(kind.machines[machine], choices)
