"""The stages of one entry of a network, each worked out when it is first asked for."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Unpack

from noeira.codegen.choices import ChoicesLike
from noeira.codegen.target import Target
from noeira.compiler import lower
from noeira.ir.plan import Plan
from noeira.ir.text.dump import Dump
from noeira.job import Job
from noeira.nn.core.module import Module
from noeira.options import CompileOptions, GraphOptions, check_names, options_of, training
from noeira.passes.pipeline import resume
from noeira.runtime.targets import TARGETS

if TYPE_CHECKING:
    from noeira.codegen.sharing import Shared
    from noeira.codegen.source import Source


@dataclass(frozen=True)
class Stages:
    """What a network's entry becomes, from its trace to its source; nothing is built or allocated.

    entry: `step`, `gradients`, `forward`, or, over a data set of a few batches, `steps`, `order` or
    `evaluate`; "" is the first of these that the job has.
    """

    job: Job
    target: Target
    entry: str = ""

    @cached_property
    def traced(self) -> Dump:
        """The graph before any pass. Raises NoeiraError if the job has no such entry."""
        return self.job.entry(self.entry).dump

    @cached_property
    def dumps(self) -> tuple[tuple[str, Dump], ...]:
        """The name of every pass and the graph after it; `trace` is the first."""
        found = [("trace", self.traced)]
        resume(self.traced)(self.traced, lambda name, dump: found.append((name, dump)))
        return tuple(found)

    @property
    def fused(self) -> Dump:
        """The graph after the last pass."""
        return self.dumps[-1][1]

    @cached_property
    def plan(self) -> Plan:
        """The plan."""
        return lower(self.fused, self.target)

    @cached_property
    def kernels(self) -> list[Shared]:
        """The distinct kernels, in order of first use."""
        from noeira.codegen.sharing import shared_kernels

        return shared_kernels([self.plan], self.target)

    @cached_property
    def source(self) -> Source:
        """The unit of this entry alone."""
        return self.target.render(self.job.net.__name__, [self.plan])


class StepOptions(GraphOptions, total=False):
    """What decides the graphs of a network, with the defaults of training, and the entry looked at.

    entry: `step`, `gradients` or `forward`, by default the first of these that there is; or, over a
    data set of a few batches, `steps`, `order` or `evaluate`.
    """

    entry: str


class StageOptions(StepOptions, total=False):
    """What decides all stages of a network: also what code is written for.

    target: `cpu`, `cuda` or `cuda-cpu`. isa: the vector unit that C is written for, by default this
    machine's; arch: the GPU that CUDA is written for, by default sm_80. choices: a table of tuned
    choices or its file, by default that of NOEIRA_CHOICES.
    """

    target: str
    isa: str | None
    arch: str | None
    choices: ChoicesLike


def stages_of(net: type[Module] | Module, **options: Unpack[StageOptions]) -> Stages:
    """The stages of a network. Raises OptionError, CompositionError, ShapeError, FusionError, or
    DeviceError for a vector unit or GPU that there is not.
    """
    check_names(options, "the report", StageOptions)
    own = {name: options[name] for name in CompileOptions.__annotations__ if name in options}
    job = Job(*options_of(net, training(own), "the report"))
    target = TARGETS[job.options.target].written_for(
        isa=options.get("isa"), arch=options.get("arch"), choices=job.options.choices
    )
    return Stages(job, target, options.get("entry", ""))
