"""summary: the parameters, arithmetic and memory of a network, worked out on its type alone."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Unpack

from noeira.ir.cost import node_cost
from noeira.ir.entry import FORWARD, MICRO, STEP
from noeira.ir.plan import Plan
from noeira.ir.states import EMA, GATHERED, GRADIENTS, GRADS, PARAMS
from noeira.nn.core.module import Module
from noeira.passes.recompute import Recompute
from noeira.report.report import Report
from noeira.report.table import bytes_text, plural, table
from noeira.stages import StageOptions, Stages, stages_of


@dataclass(frozen=True)
class ParameterLine:
    """A parameter: its dotted path, the module type that declares it, its shape."""

    path: str
    type: str
    shape: tuple[int, ...]
    count: int


@dataclass(frozen=True)
class Work:
    """An entry: launches, floating-point operations, and bytes that its kernels must move.

    again: launches that compute again what the forward pass has not kept.
    """

    entry: str
    launches: int
    flops: int
    bytes: int
    again: int = 0

    def __str__(self) -> str:
        launches = plural(self.launches, "launch", "launches")
        if self.again:
            launches += f", {self.again} of them again"
        return f"{self.entry}: {self.flops:,} FLOPs, {self.bytes:,} bytes moved, {launches}"


@dataclass(frozen=True)
class Summary(Report):
    """What a network is made of. `work` has the forward pass and, with a loss, the training entry.

    memory: bytes by purpose; gradients lie in the arena, the other purposes add up to `peak_bytes`.
    parts: those that a batch is taken in, each of which is a call; the last one updates.
    """

    name: str
    signature: str
    batch: int
    parts: int
    dtype: str
    parameters: tuple[ParameterLine, ...]
    work: tuple[Work, ...]
    memory: tuple[tuple[str, int], ...]
    peak_bytes: int

    @property
    def count(self) -> int:
        """Elements of all parameters."""
        return sum(tensor.count for tensor in self.parameters)

    @property
    def worked_on(self) -> str:
        """What a call works on, in words."""
        whole = f"a batch of {self.batch}"
        return whole if self.parts == 1 else f"one of the {self.parts} parts of {whole}"

    def to_json(self) -> dict[str, Any]:
        """The summary as an object."""
        return {
            "name": self.name,
            "signature": self.signature,
            "batch": self.batch,
            "parts": self.parts,
            "dtype": self.dtype,
            "parameters": [{**vars(t), "shape": list(t.shape)} for t in self.parameters],
            "count": self.count,
            "work": [vars(w) for w in self.work],
            "memory": dict(self.memory),
            "peak_bytes": self.peak_bytes,
        }

    def __str__(self) -> str:
        rows = [
            (t.path, t.type, f"[{', '.join(map(str, t.shape))}]", f"{t.count:,}")
            for t in self.parameters
        ]
        rows.append(("in all", "", "", f"{self.count:,}"))
        sizes = [(f"  {name}", bytes_text(size)) for name, size in self.memory]
        sizes.append(("  in all", bytes_text(self.peak_bytes)))
        width = max(len(name) for name, _ in sizes)
        return "\n".join(
            [
                f"{self.name}: {self.signature}",
                "",
                *table(("parameter", "type", "shape", "elements"), rows, right=(3,)),
                "",
                f"work for {self.worked_on} in {self.dtype}",
                *(f"  {work}" for work in self.work),
                "",
                f"memory of {self.work[-1].entry}",
                *(f"{name.ljust(width)}  {size}" for name, size in sizes),
            ]
        )


def summary(net: type[Module] | Module, **options: Unpack[StageOptions]) -> Summary:
    """Parameters, FLOPs, launches and memory of a network; no parameter is allocated.

    The options are those of `compile` and of StageOptions; loss None: the forward pass alone.
    Raises CompositionError, ShapeError or FusionError.
    """
    return summary_of(stages_of(net, **options))


def summary_of(stages: Stages) -> Summary:
    """The summary of the network behind the stages; its memory is that of their entry."""
    net = stages.job.net
    plan = stages.plan
    works = [work_of(plan)]
    if works[0].entry == STEP and MICRO in stages.job.makers:
        works.insert(0, work_of(replace(stages, entry=MICRO).plan))
    if works[0].entry != FORWARD:
        works.insert(0, work_of(replace(stages, entry=FORWARD).plan))
    tensors = tuple(
        ParameterLine(info.path, repr(info.module), info.shape, info.size)
        for info in net.parameters().values()
    )
    return Summary(
        repr(net),
        str(net.shapes()),
        stages.job.options.batch,
        stages.job.options.accumulate,
        stages.job.options.dtype,
        tensors,
        tuple(works),
        memory_of(plan),
        plan.peak_bytes(),
    )


def work_of(plan: Plan) -> Work:
    """What one call of an entry does."""
    costs = [node_cost(call.node) for call in plan.calls]
    moved = sum(cost.bytes_read + cost.bytes_written for cost in costs)
    again = sum(call.node.origin.by == Recompute.name for call in plan.calls)
    return Work(plan.graph.entry, len(costs), sum(cost.flops for cost in costs), moved, again)


def memory_of(plan: Plan) -> tuple[tuple[str, int], ...]:
    """Bytes by purpose; what there is none of is left out."""
    graph = plan.graph
    states = {state.value.name: state.value.type.nbytes for state in graph.states}
    layouts = {state.value.name: state.value.type.layout for state in graph.states}
    flat = {name for name, layout in layouts.items() if layout and layout == layouts.get(PARAMS)}
    moments = sum(states[name] for name in flat - {PARAMS, GRADIENTS, GATHERED, EMA})
    packed = [v.type.nbytes for node in graph.nodes for v in node.outputs if v.name == GRADS]
    in_arena = 0 if GRADIENTS in states else sum(packed)
    found = {
        "parameters": states.get(PARAMS, 0),
        "gradients": states.get(GRADIENTS, 0),
        "gradients, over parts of a batch": states.get(GATHERED, 0),
        "moments": moments,
        "average of the parameters": states.get(EMA, 0),
        "other states": sum(size for name, size in states.items() if name not in flat),
        "arena": plan.arena,
        "gradients, in the arena": in_arena,
        "inputs": sum(given.value.type.nbytes for given in graph.inputs),
        "outputs": sum(value.type.nbytes for value in graph.outputs),
    }
    return tuple((name, size) for name, size in found.items() if size)
