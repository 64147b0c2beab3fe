"""A target: a language and a kind of machine that kernels are written for."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from noeira.codegen.anchor import Anchor, described
from noeira.codegen.lower import kernel_body
from noeira.errors import VerifyError
from noeira.ir.body import Body
from noeira.ir.choices import Choices, Problem, Row
from noeira.ir.graph import Node
from noeira.ir.plan import Choice, Plan, Stage

if TYPE_CHECKING:
    from noeira.codegen.source import Source


class Target:
    """What decides a kernel's text beside its node and its choice.

    language: `c` or `cuda`; default: how kernels are cut that have no description; choices: a table
    of tuned choices.
    """

    language: ClassVar[str]
    default: ClassVar[Anchor]
    choices: Choices

    @property
    @abstractmethod
    def machine(self) -> Any:
        """What decides a kernel's text beside its choice: an `ISA` or an `Arch`."""

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
        return described(body.stem, self.language) or self.default

    def choose(self, node: Node) -> Choice:
        """The stages of a node's kernel and its workspace: the table's, else by rule.

        Raises VerifyError if they want more than the machine has.
        """
        row = self.row(node)
        return self.rule(node) if row is None else self.completed(node, row.stages)

    def rule(self, node: Node) -> Choice:
        """The stages by the static rule: by shape alone, never timed."""
        body = kernel_body(node)
        anchor = self.anchor(body)
        return anchor.choice(body, anchor.rule(body, self.machine), self.machine)

    def completed(self, node: Node, stages: tuple[Stage, ...]) -> Choice:
        """The choice that stages are for a node. Raises VerifyError if they do not fit it."""
        body = kernel_body(node)
        anchor = self.anchor(body)
        return anchor.choice(body, anchor.read(body, stages, self.machine), self.machine)

    def cut(self, node: Node, choice: Choice) -> Any:
        """The cut that a choice is of a node's kernel. Raises VerifyError if its stages do not fit
        the shapes, or their workspace is too small, as in an edited plan.
        """
        body = kernel_body(node)
        anchor = self.anchor(body)
        cut = anchor.read(body, choice.stages, self.machine)
        needed = anchor.workspace(body, cut)
        if choice.workspace < needed:
            stages = " ".join(map(str, choice.stages))
            given = f"not {choice.workspace:,}" if choice.workspace else "and has none"
            raise VerifyError(f"{stages}: needs a workspace of {needed:,} bytes, {given}")
        return cut

    def row(self, node: Node) -> Row | None:
        """The row of the table that decides a node's stages; None if the rule does."""
        problem = self.problem(node) if self.choices.rows else None
        return None if problem is None else self.choices.find(problem)

    def problem(self, node: Node) -> Problem | None:
        """What a node is in a table of choices; None if there is nothing to choose."""
        body = kernel_body(node)
        return self.anchor(body).problem(body, self.name)

    def candidates(self, node: Node) -> tuple[Choice, ...]:
        """Choices that a search may try for a node, the rule's own first, then likely ones."""
        body = kernel_body(node)
        anchor, machine = self.anchor(body), self.machine
        tried = [anchor.choice(body, cut, machine) for cut in anchor.candidates(body, machine)]
        return tuple(dict.fromkeys([self.rule(node), *tried]))
