"""explain: every launch of a network's step, where it comes from, why, and what it costs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Unpack

from noeira.codegen.target import Target
from noeira.codegen.targets import target_named
from noeira.errors import NoeiraError, OptionError
from noeira.ir.choices import NO_CHOICES, Choices
from noeira.ir.cost import node_cost
from noeira.ir.entry import WITHOUT_DATA
from noeira.ir.graph import ADJOINT, RECOMPUTED, ComputeGraph, Node, Origin
from noeira.ir.groups import Groups
from noeira.ir.plan import Call, Plan
from noeira.nn.core.module import Module
from noeira.passes.recompute import Recompute
from noeira.planning.memory import make_plan
from noeira.report.launches import RULE, launch_lines
from noeira.report.report import Report
from noeira.report.resources import StageUse, compiled_uses
from noeira.report.runs import Run, fusible_runs
from noeira.report.served import by_path, served
from noeira.report.structure import origin_value
from noeira.report.surroundings import Surrounding, surroundings
from noeira.report.table import bytes_text, filled, plural
from noeira.runtime.program import Program
from noeira.runtime.targets import TARGETS
from noeira.stages import StageOptions, Stages, stages_of

if TYPE_CHECKING:
    from noeira.codegen.sharing import Shared
    from noeira.codegen.source import Source


# The operations of a launch that its line names.
MOST_OPS = 4


@dataclass(frozen=True)
class ExplainedLaunch:
    """One launch. bytes: what it must at least move between its kernel and memory.

    ops: the plain operations it does; stages: its functions, in order; algorithms: by which of
    several it is done, such as `direct`, where there are several; hint: what to write so that it
    and its neighbours become fewer; chosen_by: what decided how it is cut, `rule` or the name of
    a table of choices, "" where nothing is to be chosen; uses: what its stages take of a GPU, where
    a CUDA compiler said so.
    """

    number: int
    kernel: str
    ops: tuple[str, ...]
    results: tuple[str, ...]
    origin: Origin
    why: str
    flops: int
    bytes: int
    stages: tuple[str, ...]
    algorithms: tuple[str, ...] = ()
    chosen_by: str = ""
    hint: str = ""
    uses: tuple[StageUse, ...] = ()

    @property
    def fused(self) -> bool:
        """Whether it does several operations because a fused type asks for it."""
        return len(self.ops) > 1

    @property
    def op(self) -> str:
        """The operation as the graph has it: `fused[linear, relu]`."""
        return f"fused[{', '.join(self.ops)}]" if self.fused else self.ops[0]

    @property
    def names(self) -> tuple[str, ...]:
        """The cells that say which launch it is: number, kernel, operations, path. Of many
        operations the first and the last are shown.
        """
        ops = self.ops
        if len(ops) > MOST_OPS:
            ops = (*ops[: MOST_OPS // 2], f"{len(ops) - MOST_OPS} more", *ops[-(MOST_OPS // 2) :])
        return str(self.number), self.kernel, " + ".join(ops), self.path

    @property
    def path(self) -> str:
        """The place in the network; with the mark of its results if it computes them again."""
        first = self.results[0]
        again = (
            len(first) - len(first.rstrip(RECOMPUTED)) if self.origin.by == Recompute.name else 0
        )
        return self.origin.path + RECOMPUTED * again

    @property
    def intensity(self) -> float:
        """FLOPs for each byte."""
        return self.flops / self.bytes if self.bytes else 0.0

    def to_json(self) -> dict[str, Any]:
        """The launch as an object."""
        return {
            "number": self.number,
            "kernel": self.kernel,
            "op": self.op,
            "ops": list(self.ops),
            "results": list(self.results),
            "origin": origin_value(self.origin),
            "why": self.why,
            "fused": self.fused,
            "flops": self.flops,
            "bytes": self.bytes,
            "stages": list(self.stages),
            "algorithms": list(self.algorithms),
            "chosen_by": self.chosen_by,
            "hint": self.hint,
            "resources": [use.to_json() for use in self.uses],
        }


@dataclass(frozen=True)
class Explanation(Report):
    """The launches of one entry, in order; its text is a table.

    name: of the graph; arena_bytes: memory for what is not an input, a state or an output; choices:
    the table that it was made with; note: what is missing here, and how to get it; around: what
    surrounds the gradients, in numbers.
    """

    name: str
    target: str
    launches: tuple[ExplainedLaunch, ...]
    arena_bytes: int
    choices: Choices = NO_CHOICES
    note: str = ""
    around: tuple[Surrounding, ...] = ()

    @property
    def flops(self) -> int:
        """Floating-point operations in all."""
        return sum(launch.flops for launch in self.launches)

    @property
    def bytes(self) -> int:
        """Bytes moved in all."""
        return sum(launch.bytes for launch in self.launches)

    @property
    def intensity(self) -> float:
        """FLOPs for each byte."""
        return self.flops / self.bytes if self.bytes else 0.0

    def to_json(self) -> dict[str, Any]:
        """The explanation as an object."""
        return {
            "name": self.name,
            "target": self.target,
            "launches": [launch.to_json() for launch in self.launches],
            "flops": self.flops,
            "bytes": self.bytes,
            "arena_bytes": self.arena_bytes,
            "around": [one.to_json() for one in self.around],
            "note": self.note,
        }

    def __str__(self) -> str:
        return self.text()

    def text(self, width: int = 0) -> str:
        """As text, in lines of at most `width` characters where that can be, 0 for any number."""
        kernels = len({launch.kernel for launch in self.launches})
        launches = plural(len(self.launches), "launch", "launches")
        return "\n".join(
            [
                f"@{self.name} for {self.target}: {launches} of {plural(kernels, 'kernel')}",
                "",
                *launch_lines(self, width),
                "",
                *self.around_lines(width),
                f"arena: {bytes_text(self.arena_bytes)}",
                *self.choices_lines(),
                *(filled(self.note, width) if self.note else []),
            ]
        )

    def around_lines(self, width: int) -> list[str]:
        """What surrounds the gradients, if anything does."""
        if not self.around:
            return []
        lines = [line for one in self.around for line in one.lines(width)]
        return ["around the gradients:", *lines, ""]

    def choices_lines(self) -> list[str]:
        """What the table of choices decided, if there is one."""
        if not self.choices.rows:
            return []
        chosen = [launch.chosen_by for launch in self.launches if launch.chosen_by]
        by_table, name = len(chosen) - chosen.count(RULE), table_name(self.choices)
        return [f"choices: {by_table} from {name}, {chosen.count(RULE)} by rule"]


def explain(
    net: type[Module] | Module | Program,
    *,
    resources: bool = False,
    **options: Unpack[StageOptions],
) -> Explanation:
    """Every launch of a training step: kernel, operations, module, reason and cost.

    net: a network type, with the options of `compile` (loss None: the forward pass alone) and
    those of StageOptions, or a compiled program, whose own options then hold, but for `entry`.
    resources: compile a unit of CUDA, where there is a compiler, for what its kernels take of a
    GPU. Nothing is allocated.
    Raises OptionError, CompositionError, ShapeError, FusionError, or CompilerError if a kernel does
    not compile.
    """
    if isinstance(net, Program):
        entry = options.pop("entry", "")
        if options:
            raise OptionError(
                f"a program's options are those that it was compiled with; explain takes "
                f"{', '.join(options)} with a network type"
            )
        return explain_program(net, entry, resources)
    return explain_stages(stages_of(net, **options), resources)


def explain_stages(stages: Stages, resources: bool = False) -> Explanation:
    """The launches of a network's entry."""
    runs = fusible_runs(stages.job.net)
    groups = stages.job.options.groups
    found = explained(stages.plan, symbols(stages.kernels), runs, stages.target, groups)
    if not resources:
        return found
    return with_uses(found, stages.kernels, stages.target, lambda: stages.source)


def explain_program(program: Program, entry: str, resources: bool) -> Explanation:
    """The launches of a program's entry, under the names that its source has them.

    Raises NoeiraError if there is no such entry.
    """
    from noeira.codegen.sharing import shared_kernels

    program.prepare()
    name = entry or next(n for n in WITHOUT_DATA if n in program.entries)
    if name not in program.entries:
        known = ", ".join(program.entries)
        raise NoeiraError(f"{program.name} has no entry {name!r}; it has {known}")
    unit = next(unit for unit in program.units if name in unit.entries)
    planned_entries = {key: planned(program.plans[key]) for key in unit.entries}
    found = planned_entries[name]
    target = target_named(found.target, program.choices)
    # The reference has no unit of source, which would have the plans of others too.
    plans = [*unit.plans] or [*planned_entries.values()]
    # A unit's kernels have the names that they have in the first unit.
    earlier = [] if unit is program.units[0] else program.units[0].plans
    kernels = shared_kernels(plans, target, earlier)
    runs = fusible_runs(type(program.module))
    explanation = explained(found, symbols(kernels), runs, target)
    if not resources:
        return explanation
    return with_uses(
        explanation, kernels, target, lambda: target.render(program.name, plans, earlier)
    )


def with_uses(
    found: Explanation, kernels: Sequence[Shared], target: Target, source: Callable[[], Source]
) -> Explanation:
    """With what kernels of CUDA take of a GPU, or a note where there is no compiler to say that."""
    uses, note = compiled_uses(kernels, target, source)
    launches = tuple(replace(one, uses=uses.get(one.kernel, ())) for one in found.launches)
    return replace(found, launches=launches, note=note)


def planned(found: Plan | ComputeGraph) -> Plan:
    """The plan itself; a graph that the reference runs, as C would run it here."""
    if isinstance(found, Plan):
        return found
    target = TARGETS["reference"].written_for()
    return make_plan(found, target.choose, target.name)


def symbols(kernels: Sequence[Shared]) -> dict[int, str]:
    """The kernel's name for the `id` of every call."""
    return {id(call): kernel.symbol for kernel in kernels for _, call in kernel.calls}


def explained(
    plan: Plan,
    names: Mapping[int, str],
    runs: Sequence[Run],
    target: Target,
    groups: Groups = (),
) -> Explanation:
    """The launches of a plan made for a target, with hints where launches could be fewer. groups:
    of parameters, where they are known by their patterns.
    """
    launches = [
        launch_of(number, call, names[id(call)], plan.graph, target)
        for number, call in enumerate(plan.calls)
    ]
    calls = {id(call.node): number for number, call in enumerate(plan.calls)}
    found = defaultdict[Run, list[int]](list)
    for node, run in served(plan.graph, by_path(runs)):
        found[run].append(calls[id(node)])
    for run, numbers in found.items():
        if len(numbers) > 1:
            last = numbers[-1]
            launches[last] = replace(launches[last], hint=run.hint(len(numbers)))
    around = surroundings(plan.graph, groups)
    return Explanation(
        plan.name, plan.target, tuple(launches), plan.arena, target.choices, around=around
    )


def chosen_by(node: Node, target: Target) -> str:
    """What decided the stages of a node: `rule`, the name of a table, "" if nothing had to."""
    if target.problem(node) is None:
        return ""
    return RULE if target.row(node) is None else table_name(target.choices)


def table_name(choices: Choices) -> str:
    """What a table is called in a report."""
    return choices.name or "a table"


def launch_of(
    number: int, call: Call, kernel: str, graph: ComputeGraph, target: Target
) -> ExplainedLaunch:
    """One launch."""
    node, cost = call.node, node_cost(call.node)
    return ExplainedLaunch(
        number,
        kernel,
        tuple(part.op.name for part in node.parts),
        tuple(v.name for v in node.outputs),
        node.origin,
        reason(node, graph),
        cost.flops,
        cost.bytes_read + cost.bytes_written,
        tuple(stage.name for stage in call.choice.stages),
        target.algorithms(node, call.choice),
        chosen_by(node, target),
    )


def reason(node: Node, graph: ComputeGraph) -> str:
    """Why a launch exists: the type it serves, or the sentence that its pass left."""
    origin = node.origin
    written = graph.group_of(node.group).type if node.group else origin.type
    if " " in origin.type.partition("[")[0].partition("(")[0]:
        return origin.type
    if origin.by == Recompute.name:
        return f"{written} again"
    if node.body:
        fused = f"fused because you wrote {written}"
        return f"{fused} (its gradient)" if node.group.endswith(ADJOINT) else fused
    return f"gradient of {written}" if origin.by == "vjp" else written
