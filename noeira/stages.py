"""The stages of one entry of a network, each worked out when it is first asked for."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Unpack

from noeira.codegen.c.isa import ISAS, PLAIN
from noeira.codegen.c.target import CTarget
from noeira.codegen.choices import ChoicesLike
from noeira.codegen.cuda.arch import DEFAULT_ARCH
from noeira.codegen.cuda.arch import arch as arch_named
from noeira.codegen.language import CUDA
from noeira.codegen.target import Target
from noeira.compiler import render_plans
from noeira.errors import DeviceError
from noeira.ir.choices import NO_CHOICES, Choices
from noeira.ir.plan import Plan
from noeira.ir.text.dump import Dump
from noeira.job import Job
from noeira.nn.core.module import Module
from noeira.options import CompileOptions, GraphOptions, check_names, options_of, training
from noeira.passes.pipeline import resume
from noeira.planning.memory import make_plan
from noeira.runtime.targets import TARGETS

if TYPE_CHECKING:
    from noeira.codegen.cuda.target import CudaTarget
    from noeira.codegen.sharing import Shared
    from noeira.codegen.source import Source


@dataclass(frozen=True)
class Stages:
    """What a network's entry becomes, from its trace to its source; nothing is built or allocated.

    entry: `step`, `gradients`, `forward`, or, over a data set of a few batches, `steps` or
    `evaluate`; "" is the last of the first three that the job has.
    """

    job: Job
    target: Target
    entry: str = ""

    @cached_property
    def traced(self) -> Dump:
        """The graph before any pass. Raises NoeiraError if the job has no such entry."""
        if not self.entry:
            return self.job.entries()[-1].dump
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
        return make_plan(self.fused.graph, self.target.choose, self.target.name)

    @cached_property
    def kernels(self) -> list[Shared]:
        """The distinct kernels, in order of first use."""
        from noeira.codegen.sharing import shared_kernels

        return shared_kernels([self.plan], self.target)

    @cached_property
    def source(self) -> Source:
        """The unit of this entry alone."""
        return render_plans(self.job.net.__name__, [self.plan], self.target)


class StepOptions(GraphOptions, total=False):
    """What decides the graphs of a network, with the defaults of training, and the entry looked at.

    entry: `step`, `gradients` or `forward`, by default the last of these that there is; or, over a
    data set of a few batches, `steps` or `evaluate`.
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
    target, choices = job.options.target, job.options.choices
    language = target_of(target, options.get("isa"), options.get("arch"), choices)
    return Stages(job, language, options.get("entry", ""))


def target_of(
    target: str = "cpu",
    isa: str | None = None,
    arch: str | None = None,
    choices: Choices = NO_CHOICES,
) -> CTarget | CudaTarget:
    """What code is written for: `cpu`, C for a kind of vector unit with a table of choices, or
    `cuda`, for a kind of GPU.

    Raises DeviceError for a kind that there is not, or one that does not go with the target.
    """
    if TARGETS[target].language is CUDA:
        from noeira.codegen.cuda.target import CudaTarget

        if isa is not None:
            raise DeviceError(f"isa={isa} is for target cpu; {target} has arch=sm_80, …")
        return CudaTarget(arch_named(arch or DEFAULT_ARCH))
    if arch is not None:
        raise DeviceError(f"arch={arch} is for target cuda; {target} has isa=avx2, …")
    return c_target(isa, choices)


def c_target(isa: str | None = None, choices: Choices = NO_CHOICES) -> CTarget:
    """C for a kind of vector unit, by default this machine's. Raises DeviceError for one that there
    is not.
    """
    if isa is not None:
        if isa not in ISAS:
            raise DeviceError(f"there is no vector unit {isa!r}; there are {', '.join(ISAS)}")
        return CTarget(ISAS[isa], choices)
    from noeira.runtime.c.compiler import find_compiler

    found = find_compiler()
    return CTarget(found.isa if found else PLAIN, choices)
