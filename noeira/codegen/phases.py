"""The stages of a call whose kernel has several phases: in plans each is named by its phase too.

A lone phase has its stages as they are, `gemm{…} total{}`. Of several, the stage that is called as
the kernel of its phase has the phase's label alone, the others have it before their own name:

    gemm{…} gemm.total{…} column.chunks{…} column.total{…} map{…}

Phases share the front of the call's workspace, for what they leave for later ones; behind that each
has all the rest while it runs.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import replace

from noeira.errors import VerifyError
from noeira.ir.body import Phases
from noeira.ir.plan import Choice, Stage


def joined_choice(phases: Phases, choices: Sequence[Choice]) -> Choice:
    """The choice for a call, from those for each of its phases."""
    stages = tuple(
        labelled(stage, label, body.stem)
        for label, body, choice in zip(phases.labels, phases.bodies, choices, strict=True)
        for stage in choice.stages
    )
    return Choice(stages, phases.scratch_bytes + max(choice.workspace for choice in choices))


def labelled(stage: Stage, label: str, stem: str) -> Stage:
    """A stage of a phase, as it is called among those of others."""
    if not label:
        return stage
    return replace(stage, name=label if stage.name == stem else f"{label}.{stage.name}")


def own_stages(phases: Phases, stages: Sequence[Stage]) -> tuple[tuple[Stage, ...], ...]:
    """The stages of each phase, under their own names.

    Raises VerifyError if one is of no phase or stands before an earlier one's, or a phase has none.
    """
    if not phases.several:
        return (tuple(stages),)
    found: list[list[Stage]] = [[] for _ in phases.bodies]
    at, labels = 0, phases.labels
    for stage in stages:
        label, _, name = stage.name.partition(".")
        if label not in labels:
            near = difflib.get_close_matches(label, labels, n=1)
            hint = f": did you mean {near[0]}?" if near else f"; there are {', '.join(labels)}"
            raise VerifyError(f"{stage}: there is no phase {label} here{hint}")
        number = labels.index(label)
        if number < at:
            raise VerifyError(f"{stage}: it must stand before those of the phase {labels[at]}")
        at = number
        found[number].append(replace(stage, name=name or phases.bodies[number].stem))
    for label, own in zip(labels, found, strict=True):
        if not own:
            text = " ".join(map(str, stages))
            raise VerifyError(f"{text}: the stages of the phase {label} are missing")
    return tuple(map(tuple, found))
