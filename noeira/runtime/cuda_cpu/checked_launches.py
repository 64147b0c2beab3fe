"""Launches in check mode: what each kernel may touch, worked out from what it is given.

A kernel may read its inputs, and write its outputs and its workspace; it may read those when it has
written them, in this stage or an earlier one of its call. An output that lies where an input of the
call lies may be read at once. When the last stage is over, every output has to be written.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from noeira.errors import KernelFault
from noeira.runtime.cuda_cpu.module import Region
from noeira.runtime.device.device import Argument, BoundLaunch

# Told of a fault and of the launch that it is of.
Report: TypeAlias = Callable[[BoundLaunch, KernelFault], None]


@dataclass
class CheckedLaunches:
    """Launches one after the other. regions: of the present call; its stages have the same, so that
    what one of them wrote may be read by the next.
    """

    order: str
    seed: int
    report: Report | None = None
    regions: tuple[Region, ...] = ()

    def launch(self, module: Any, launch: BoundLaunch) -> None:
        """Launch a kernel of a unit that was built in check mode. Raises KernelFault, or reports
        it.
        """
        if launch.stage == 0:
            self.regions = regions_of(launch.arguments)
        try:
            module.launch(
                launch.kernel,
                launch.grid,
                launch.block,
                launch.shared,
                launch.pointers,
                order=self.order,
                seed=self.seed,
                regions=self.regions,
            )
        except KernelFault as fault:
            self.found(launch, fault)
            return
        if launch.last:
            self.check_outputs(launch)

    def check_outputs(self, launch: BoundLaunch) -> None:
        """Every output has to be written when a call is over."""
        outputs = {a.pointer for a in launch.arguments if a.role == "output"}
        for region in self.regions:
            missing = region.never_written() if region.pointer in outputs else []
            if missing and not region.initialised:
                count = sum(map(len, missing))
                total = -(-region.nbytes // region.granule)
                text = (
                    f"{region.name} is not wholly written: {count} of {total} elements are not, "
                    f"the first of them {missing[0].start}"
                )
                self.found(launch, KernelFault("unwritten output", launch.kernel, 0, 0, None, text))

    def found(self, launch: BoundLaunch, fault: KernelFault) -> None:
        """Raise a fault, or report it."""
        if self.report is None:
            raise fault
        self.report(launch, fault)


def regions_of(arguments: Sequence[Argument]) -> tuple[Region, ...]:
    """What a call may touch: a region for each argument; arguments that overlap have one."""
    inputs = [a for a in arguments if a.role == "input"]
    found = list[Region]()
    for argument in sorted((a for a in arguments if a.nbytes), key=lambda a: a.pointer):
        readable = any(overlap(argument, other) for other in inputs)
        region = Region(
            argument.pointer,
            argument.nbytes,
            argument.name,
            initialised=readable,
            writable=argument.role != "input",
            granule=argument.itemsize,
        )
        if found and region.pointer < found[-1].pointer + found[-1].nbytes:
            found[-1] = merged(found[-1], region)
        else:
            found.append(region)
    return tuple(found)


def overlap(a: Argument, b: Argument) -> bool:
    """Whether two arguments have bytes in common."""
    return a.pointer < b.pointer + b.nbytes and b.pointer < a.pointer + a.nbytes


def merged(a: Region, b: Region) -> Region:
    """One region for two that overlap: it allows what either allows."""
    end = max(a.pointer + a.nbytes, b.pointer + b.nbytes)
    names = a.name if a.name == b.name else f"{a.name} and {b.name}"
    return replace(
        a,
        nbytes=end - a.pointer,
        name=names,
        initialised=a.initialised or b.initialised,
        writable=a.writable or b.writable,
        granule=min(a.granule, b.granule),
    )
