"""The unit that `noeira check` runs: of a network, or of a file as dumped or edited, built in check
mode.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from noeira.codegen.cuda.launches import stage_launches
from noeira.codegen.language import CUDA, language_of
from noeira.codegen.targets import target_named
from noeira.commands.support.files import read_plan, unit_source
from noeira.commands.support.options import check_entry
from noeira.compiler import lower
from noeira.errors import CompilerError, NoeiraError
from noeira.ir.plan import Plan
from noeira.runtime.cuda.builder import SOURCE

if TYPE_CHECKING:
    from noeira.commands.support.loading import Subject
    from noeira.runtime.build.library import Library
    from noeira.runtime.cuda.toolchain import CudaToolchain
    from noeira.runtime.device.launched_entry import LaunchedEntry
    from noeira.stages import Stages


@dataclass(frozen=True)
class CheckedUnit:
    """Plans, the library with their kernels, the file with its source, and what launches them."""

    plans: tuple[Plan, ...]
    library: Library
    path: Path
    toolchain: CudaToolchain

    @property
    def entries(self) -> dict[str, int]:
        """The place of each entry among the plans."""
        return {plan.graph.entry: index for index, plan in enumerate(self.plans)}

    def entry(self, index: int) -> LaunchedEntry:
        """The entry point of a plan."""
        return self.toolchain.entry(self.plans[index], self.library, index)

    def launches(self, index: int) -> Iterator[tuple[str, str]]:
        """The kernel and the stage of every launch of a plan."""
        plan, symbols = self.plans[index], self.library.symbols[index]
        for call, symbol in zip(plan.calls, symbols, strict=True):
            for one in stage_launches(call, symbol):
                yield one.kernel, one.stage


def network_unit(stages: Stages, entry: str, toolchain: CudaToolchain) -> CheckedUnit:
    """Every entry of a network, those over data too, or the one that is named. Raises
    UsageError if there is no such entry.
    """
    job = stages.job
    if entry:
        check_entry(entry, job.makers_with_data)
    wanted = [entry] if entry else job.makers_with_data
    plans = [lower(job.entry(name).dump, toolchain.target) for name in wanted]
    return unit_of(job.net.__name__, plans, toolchain)


def file_unit(file: Subject, toolchain: CudaToolchain) -> CheckedUnit:
    """The graph of a `.nir`, or a `.plan` or `.cu` as it stands. Raises NoeiraError for a plan of
    another target.
    """
    if file.ending == ".cu":
        return source_unit(file.path, toolchain)
    if file.ending == ".plan":
        plan = read_plan(file.path)
        toolchain = for_plan(plan, file.path, toolchain)
    else:
        plan = file.plan(toolchain.target)
    return unit_of(plan.graph.network, [plan], toolchain)


def unit_of(name: str, plans: Sequence[Plan], toolchain: CudaToolchain) -> CheckedUnit:
    """Plans, rendered and built."""
    library = toolchain.build(toolchain.target.render(name, plans))
    path = library.edited or library.entry_folder / library.source_name
    return CheckedUnit(tuple(plans), library, path, toolchain)


def source_unit(path: str, toolchain: CudaToolchain) -> CheckedUnit:
    """A unit of CUDA as it stands. Raises CompilerError, with the lines of the file, if it does not
    compile.
    """
    source = unit_source(path)
    toolchain = for_plan(source.parsed[0], path, toolchain)
    try:
        library = toolchain.lenient().build(source)
    except CompilerError as error:
        raise CompilerError(refusal(path, str(error))) from None
    return CheckedUnit(source.parsed, library, Path(path), toolchain)


def refusal(path: str, message: str) -> str:
    """What a compiler says of a file, which it knows as `unit.cu`; without the command, which is
    for the text that the file becomes.
    """
    said = message.partition("\n  command: ")[0].strip()
    lines = [line for line in said.splitlines() if re.match(rf"{re.escape(SOURCE)}:|\s", line)]
    words = "\n".join(lines or said.splitlines())
    return f"{path} does not compile:\n{words.replace(f'{SOURCE}:', f'{path}:')}"


def for_plan(plan: Plan, path: str, toolchain: CudaToolchain) -> CudaToolchain:
    """The toolchain for the GPU that a plan is for. Raises NoeiraError if it is for none."""
    target = target_named(plan.target)
    if language_of(target.name) is not CUDA:
        raise NoeiraError(
            f"{path} is for {plan.target}; check is for CUDA: check the .nir that it was made from"
        )
    return replace(toolchain, arch=target.machine)
