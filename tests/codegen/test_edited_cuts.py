"""Every number in a plan that decides a cut, edited: its kernel is refused with a message that
names the number, or gives what it gave before.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest
from c_sweep import CKernels, compiler_or_skip, quick
from cuda_sweep import CudaKernels
from limits import limited
from samples import kinds
from sweep import Case, assert_agrees, sample_case
from sweep_units import C_SPLIT, CUDA, CUDA_TURNS, C, Library, Variant, all_ways
from swept_ops import launching

from noeira.codegen.c.target import CTarget
from noeira.codegen.cuda.target import CudaTarget
from noeira.codegen.cut import MOST, Option, options_of
from noeira.codegen.lower import kernel_phases
from noeira.codegen.target import Target
from noeira.errors import VerifyError
from noeira.ir.body import body_of
from noeira.ir.plan import Choice, Stage

# What follows from other numbers, as the refusal says it.
FOLLOWS = re.compile(r"(?P<stage>\w+)\{.*\}: (?P<name>\w+) must be (?P<value>\d+) here")
WORKSPACE = re.compile(r"needs a workspace of ([\d,]+) bytes")
# Of so many blocks a GPU takes no longer, but the CPU in its place does.
MOST_BLOCKS = 64


@dataclass(frozen=True)
class Edit:
    """A number of a case's plan, edited."""

    case: Case
    choice: Choice
    option: Option
    value: int

    def __str__(self) -> str:
        return f"{self.case.label}: {self.option.name} = {self.value}"


def edited(stages: tuple[Stage, ...], name: str, option: str, value: Any) -> tuple[Stage, ...]:
    """Stages with another value of an option, of the stage of that name."""
    return tuple(
        replace(stage, options=tuple((dict(stage.options) | {option: value}).items()))
        if stage.name == name
        else stage
        for stage in stages
    )


def values(option: Option, rule: int) -> Iterator[int]:
    """The least, the largest, and those beside what the rule says; of a switch the other."""
    if option.switch:
        yield not rule
        return
    most = MOST_BLOCKS if option.name == "grid" else option.most or MOST
    yield from dict.fromkeys((option.least, most, rule - 1, rule + 1))


def edits(target: Target, case: Case, choice: Choice) -> Iterator[Edit]:
    """The numbers of the options of a kernel's cut, edited one at a time."""
    phases = kernel_phases(case.node)
    if len(phases.bodies) > 1:
        return
    anchor, (body,) = target.anchor(phases.bodies[0]), phases.bodies
    cut = anchor.read(body, choice.stages, target.machine)
    cut = getattr(cut, "options", cut)
    for option in options_of(type(cut)):
        stage = option.stage or choice.stages[0].name
        now = getattr(cut, option.field)
        if all(one.name != stage for one in choice.stages):
            continue
        for value in values(option, now):
            stages = edited(choice.stages, stage, option.name, value)
            yield Edit(case, replace(choice, stages=stages), option, value)


def settled(target: Target, edit: Edit) -> Choice:
    """The choice with what follows from the edited number as the messages say. Raises VerifyError
    with the first message that says no such thing.
    """
    choice = edit.choice
    while True:
        try:
            target.cuts(edit.case.node, choice)
        except VerifyError as error:
            follows, workspace = FOLLOWS.match(str(error)), WORKSPACE.search(str(error))
            if follows:
                name, option = follows["stage"], follows["name"]
                stages = edited(choice.stages, name, option, int(follows["value"]))
                choice = replace(choice, stages=stages)
            elif workspace and choice.workspace:
                choice = replace(choice, workspace=int(workspace[1].replace(",", "")))
            else:
                raise
        else:
            return choice


def subjects(target: Target, variant: Variant) -> tuple[list[Case], list[Choice]]:
    """One or two cases for each kernel, and what is chosen for them."""
    found = dict[tuple[str, str], Case]()
    for rule in launching():
        samples = kinds(rule) or rule.samples()
        for place, sample in (("first", samples[0]), ("last", samples[-1])):
            case = sample_case(rule, sample)
            found.setdefault((body_of(case.node).stem, place), case)
    made = list(dict.fromkeys(found.values()))
    with limited(variant.limits):
        return made, [target.choose(case.node) for case in made]


def sorted_out(target: Target, variant: Variant) -> list[Edit]:
    """The edits that are not refused, each settled."""
    accepted = list[Edit]()
    for case, choice in zip(*subjects(target, variant), strict=True):
        for edit in edits(target, case, choice):
            try:
                made = settled(target, edit)
            except VerifyError as error:
                name, text = edit.option.name, str(error)
                assert re.search(rf"\b{name}\b|with these options the stages are", text), text
            else:
                labelled = replace(case, label=str(edit))
                accepted.append(replace(edit, case=labelled, choice=made))
    return accepted


def built(variant: Variant) -> tuple[tuple[Case, ...], Library]:
    """The kernels of all edits that are not refused."""
    target = CTarget(compiler_or_skip().isa) if variant.target == "c" else variant.chooses
    accepted = sorted_out(target, variant)
    cases, choices = tuple(e.case for e in accepted), tuple(e.choice for e in accepted)
    if isinstance(target, CTarget):
        return cases, CKernels(target, cases, choices).built(quick(compiler_or_skip()))
    assert isinstance(target, CudaTarget)
    return cases, CudaKernels(cases, choices, target).built(check=True)


@pytest.mark.parametrize(
    "variant",
    [C, C_SPLIT, *(pytest.param(v, marks=pytest.mark.slow) for v in (CUDA, CUDA_TURNS))],
    ids=str,
)
def test_an_option_is_refused_or_gives_the_same(variant: Variant) -> None:
    cases, library = built(variant)
    for number, case in enumerate(cases):
        arrays = case.arrays(number)
        assert_agrees(case, all_ways(library, case, arrays), arrays)
