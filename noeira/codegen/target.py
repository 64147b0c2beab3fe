"""A target: a language and a kind of machine that kernels are written for."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from noeira.codegen.anchor import Anchor, described
from noeira.codegen.defaults import Defaults
from noeira.codegen.lower import kernel_phases
from noeira.codegen.phases import joined_choice, own_stages
from noeira.errors import VerifyError
from noeira.ir.body import Body
from noeira.ir.choices import NO_CHOICES, Choices, Problem, Row
from noeira.ir.graph import Node
from noeira.ir.plan import Choice, Plan, Stage

if TYPE_CHECKING:
    from noeira.codegen.source import Source


@dataclass(frozen=True)
class Target:
    """What decides a kernel's text beside its node and its choice.

    machine: what it is written for, an `ISA` or an `Arch`; choices: a table of tuned choices;
    language: `c` or `cuda`; machines: all that it can be written for, by name; defaults: how
    kernels are cut that have no description.
    """

    machine: Any
    choices: Choices = NO_CHOICES
    language: ClassVar[str]
    machines: ClassVar[Mapping[str, Any]]
    defaults: ClassVar[Defaults]

    @abstractmethod
    def render(self, name: str, plans: Sequence[Plan], earlier: Sequence[Plan] = ()) -> Source:
        """The unit of a program's plans; `earlier`: the plans of another unit, whose kernels keep
        their names.
        """

    @property
    def name(self) -> str:
        """As in plans: `c avx512`, `cuda sm_90`."""
        return f"{self.language} {self.machine.name}"

    def anchor(self, body: Body) -> Anchor:
        """How a body's kernel is cut."""
        return described(body.stem, self.language) or self.defaults.of(body)

    def check_places(self, plan: Plan) -> None:
        """Raises VerifyError for a place, perhaps of a view, that kernels cannot read or write.
        Those of C can at any element.
        """

    def choose(self, node: Node) -> Choice:
        """The stages of a node's kernel and its workspace: the table's, else by rule.

        Raises VerifyError if they want more than the machine has.
        """
        row = self.row(node)
        return self.rule(node) if row is None else self.completed(node, row.stages)

    def rule(self, node: Node) -> Choice:
        """The stages by the static rule: by shape alone, never timed."""
        phases = kernel_phases(node)
        return joined_choice(phases, [self.rule_of(body) for body in phases.bodies])

    def rule_of(self, body: Body) -> Choice:
        """The stages of a phase by the static rule. Raises DtypeError for floats that its kernel
        does not have.
        """
        anchor = self.anchor(body)
        anchor.check_dtypes(body)
        return anchor.choice(body, anchor.rule(body, self.machine), self.machine)

    def completed(self, node: Node, stages: tuple[Stage, ...]) -> Choice:
        """The choice for a node in which the phase that there is something to choose for has these
        stages, and each other one those of the rule. Raises VerifyError if they do not fit it.
        """
        phases, tuned = kernel_phases(node), self.tuned(node)
        choices = [
            self.completed_of(body, stages) if body == tuned else self.rule_of(body)
            for body in phases.bodies
        ]
        return joined_choice(phases, choices)

    def completed_of(self, body: Body, stages: tuple[Stage, ...]) -> Choice:
        """The choice that stages are for a phase. Raises VerifyError if they do not fit it."""
        anchor = self.anchor(body)
        return anchor.choice(body, anchor.read(body, stages, self.machine), self.machine)

    def cuts(self, node: Node, choice: Choice) -> tuple[Any, ...]:
        """The cut that a choice is of each phase of a node's kernel. Raises VerifyError if its
        stages do not fit the shapes, or their workspace is too small, as in an edited plan.
        """
        phases = kernel_phases(node)
        cuts, room = list[Any](), 0
        own = own_stages(phases, choice.stages)
        for body, label, stages in zip(phases.bodies, phases.labels, own, strict=True):
            anchor = self.anchor(body)
            try:
                cut = anchor.read(body, stages, self.machine)
            except VerifyError as error:
                raise VerifyError(f"phase {label}: {error}" if label else str(error)) from None
            room = max(room, anchor.workspace(body, cut))
            cuts.append(cut)
        needed = phases.scratch_bytes + room
        if choice.workspace < needed:
            text = " ".join(map(str, choice.stages))
            given = f"not {choice.workspace:,}" if choice.workspace else "and has none"
            raise VerifyError(f"{text}: needs a workspace of {needed:,} bytes, {given}")
        return tuple(cuts)

    def algorithms(self, node: Node, choice: Choice) -> tuple[str, ...]:
        """By which algorithms a choice does what there are several for, in words."""
        bodies, cuts = kernel_phases(node).bodies, self.cuts(node, choice)
        pairs = zip(bodies, cuts, strict=True)
        found = (self.anchor(body).algorithm(body, cut) for body, cut in pairs)
        return tuple(filter(None, found))

    def row(self, node: Node) -> Row | None:
        """The row of the table that decides a node's stages; None if the rule does."""
        problem = self.problem(node) if self.choices.rows else None
        return None if problem is None else self.choices.find(problem)

    def tuned(self, node: Node) -> Body:
        """The phase of a node that there is something to choose for, or else the first."""
        bodies = kernel_phases(node).bodies
        return next((b for b in bodies if self.anchor(b).problem(b, self.name)), bodies[0])

    def problem(self, node: Node) -> Problem | None:
        """What a node is in a table of choices; None if there is nothing to choose."""
        body = self.tuned(node)
        return self.anchor(body).problem(body, self.name)

    def check_row(self, problem: Problem, stages: tuple[Stage, ...]) -> None:
        """Raises VerifyError unless the stages of a row of a table fit its problem."""
        anchor = described(problem.kind, self.language)
        if anchor is None:
            raise VerifyError(f"{problem}: there are no choices for {problem.kind}")
        anchor.read(anchor.body(problem), stages, self.machine)

    def candidates(self, node: Node) -> tuple[Choice, ...]:
        """Choices that a search may try for the phase of a node that there is something to choose
        for, the rule's own first, then likely ones.
        """
        body = self.tuned(node)
        anchor, machine = self.anchor(body), self.machine
        tried = [anchor.choice(body, cut, machine) for cut in anchor.candidates(body, machine)]
        return tuple(dict.fromkeys([self.rule_of(body), *tried]))
