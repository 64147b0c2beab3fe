"""What each stage of a step takes of a GPU: registers, shared memory, spills, and how many warps a
multiprocessor holds of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from noeira.codegen.cuda.arch import Arch, Occupancy
from noeira.codegen.cuda.launches import stage_launches
from noeira.codegen.language import CUDA, language_of
from noeira.errors import CompilerError
from noeira.ir.plan import Call
from noeira.report.table import table

if TYPE_CHECKING:
    from noeira.codegen.sharing import Shared
    from noeira.codegen.source import Source
    from noeira.codegen.target import Target
    from noeira.runtime.build.library import Library
    from noeira.runtime.cuda.resources import Resources

HEAD = (
    "kernel",
    "stage",
    "blocks",
    "threads",
    "registers",
    "shared",
    "spills",
    "stack",
    "occupancy",
    "limited by",
)
NUMBERS = range(2, 9)
LEGEND = (
    "registers, spills (bytes stored / loaded) and stack (bytes): of one thread; shared: bytes of",
    "one block, declared in the kernel + asked for at launch; occupancy: warps that a",
    "multiprocessor holds, of those it has room for, and what keeps another block out.",
)
# What the launches of an explanation get besides.
LAUNCH_HEAD = ("registers", "shared", "spills", "occupancy")
NO_COMPILER = (
    "registers, shared memory, spills and occupancy are told by a CUDA compiler, and there is none "
    "here: pip install nvidia-cuda-nvrtc (it needs no GPU)"
)


@dataclass(frozen=True)
class StageUse:
    """What the kernel of one stage takes. grid: blocks; block: threads of each; dynamic_shared:
    bytes of one block that the launch asks for.
    """

    stage: str
    grid: int
    block: int
    dynamic_shared: int
    resources: Resources
    occupancy: Occupancy

    @property
    def shared(self) -> int:
        """Bytes of shared memory of one block in all."""
        return self.resources.static_shared + self.dynamic_shared

    def to_json(self) -> dict[str, Any]:
        """The stage as an object."""
        return {
            **asdict(self.resources),
            "stage": self.stage,
            "grid": self.grid,
            "block": self.block,
            "dynamic_shared": self.dynamic_shared,
            "occupancy": asdict(self.occupancy),
        }


def compiled_uses(
    kernels: Sequence[Shared], target: Target, source: Callable[[], Source]
) -> tuple[dict[str, tuple[StageUse, ...]], str]:
    """What the stages of every kernel take, by the kernel's name, and "": nothing for a target that
    is no GPU; without a compiler nothing, and how to get one. Raises CompilerError.
    """
    from noeira.runtime.targets import toolchain_for

    if language_of(target.name) is not CUDA:
        return {}, ""
    try:
        toolchain = toolchain_for(target)
    except CompilerError:
        return {}, NO_COMPILER
    return uses_of(kernels, toolchain.build(source()), target.machine), ""


def uses_of(
    kernels: Sequence[Shared], library: Library, arch: Arch
) -> dict[str, tuple[StageUse, ...]]:
    """What the stages of every kernel take, by the kernel's name."""
    from noeira.runtime.cuda.builder import unit_resources

    known = {one.kernel: one for one in unit_resources(library.entry)}
    return {k.symbol: stage_uses(k.calls[0][1], k.symbol, known, arch) for k in kernels}


def stage_uses(
    call: Call, symbol: str, known: Mapping[str, Resources], arch: Arch
) -> tuple[StageUse, ...]:
    """What the stages of a call take; one whose kernel is not known is left out: it was edited
    away.
    """
    found = list[StageUse]()
    for one in stage_launches(call, symbol):
        taken = known.get(one.kernel)
        if taken is not None:
            occupancy = taken.occupancy(arch, one.block, one.shared)
            found.append(StageUse(one.stage, one.grid, one.block, one.shared, taken, occupancy))
    return tuple(found)


def resource_lines(uses: Mapping[str, Sequence[StageUse]]) -> list[str]:
    """A table with a line for each stage, and what its columns mean."""
    rows = [
        (
            use.resources.kernel,
            use.stage,
            f"{use.grid:,}",
            f"{use.block:,}",
            str(use.resources.registers),
            f"{use.resources.static_shared:,} + {use.dynamic_shared:,}",
            f"{use.resources.spill_stores:,} / {use.resources.spill_loads:,}",
            f"{use.resources.stack:,}",
            percent(use.occupancy),
            use.occupancy.limit,
        )
        for stages in uses.values()
        for use in stages
    ]
    return [*table(HEAD, rows, right=NUMBERS), "", *LEGEND]


def launch_cells(uses: Sequence[StageUse]) -> tuple[str, ...]:
    """The cells of a launch under LAUNCH_HEAD; of several stages one after the other."""
    cells = (
        [str(use.resources.registers) for use in uses],
        [f"{use.shared:,}" for use in uses],
        [f"{use.resources.spills:,}" for use in uses],
        [percent(use.occupancy) for use in uses],
    )
    return tuple(" / ".join(cell) for cell in cells)


def percent(occupancy: Occupancy) -> str:
    """`75 %`"""
    return f"{100 * occupancy.fraction:.0f} %"
