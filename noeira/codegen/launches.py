"""Launches on a GPU: the stages that say how many blocks of how many threads, and their limits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from noeira.codegen.arch import WARP, Arch
from noeira.codegen.kernels import function_names
from noeira.errors import VerifyError
from noeira.ir.plan import Call, Choice, Stage


@dataclass(frozen=True)
class StageLaunch:
    """How one stage of a call is launched: its kernel, blocks, threads of a block, and the bytes of
    dynamic shared memory of each.
    """

    kernel: str
    stage: str
    grid: int
    block: int
    shared: int


def launch(name: str, grid: int, block: int, shared: int = 0, **options: int) -> Stage:
    """A stage of so many blocks of so many threads, with bytes of shared memory for a block."""
    memory = (("shared", shared),) if shared else ()
    return Stage(name, (("grid", grid), ("block", block), *options.items(), *memory))


def stage_launches(call: Call, symbol: str) -> Iterator[StageLaunch]:
    """The launches of a call in order, one a stage; `symbol` is the name of its kernel."""
    for name, stage in zip(function_names(call, symbol), call.choice.stages, strict=True):
        options = dict(stage.options)
        shared = options.get("shared", 0)
        yield StageLaunch(name, stage.name, options["grid"], options["block"], shared)


def within(choice: Choice, arch: Arch) -> Choice:
    """The choice. Raises VerifyError if the GPU cannot launch it, as an edited plan may ask for."""
    for stage in choice.stages:
        options = dict(stage.options)
        for name in ("grid", "block"):
            if name not in options:
                raise VerifyError(f"{stage}: {name} is missing")
        for name, value in stage.options:
            least = 0 if name == "shared" else 1
            if not whole(value) or value < least:
                raise VerifyError(f"{stage}: {name} must be a whole number of at least {least}")
        check_most(stage, arch)
        if options["block"] > WARP and options["block"] % WARP:
            raise VerifyError(f"{stage}: block must be at most {WARP}, or a multiple of {WARP}")
        check_row_threads(stage, options["block"], options.get("row_threads", 1))
    return choice


def whole(value: Any) -> bool:
    """Whether an option is a whole number."""
    return isinstance(value, int) and not isinstance(value, bool)


def check_most(stage: Stage, arch: Arch) -> None:
    """Raises VerifyError for more blocks, threads or shared memory than the GPU has."""
    options = dict(stage.options)
    most = {
        "grid": (arch.grid, "blocks"),
        "block": (arch.block_threads, "threads in a block"),
        "shared": (arch.most_shared, "bytes of shared memory for a block"),
    }
    for name, (limit, what) in most.items():
        if options.get(name, 0) > limit:
            raise VerifyError(
                f"{stage}: {arch.name} has at most {limit:,} {what}, "
                f"not {options[name]:,}: make {name} smaller"
            )


def check_row_threads(stage: Stage, block: int, threads: int) -> None:
    """Raises VerifyError for threads of a row that its sums cannot be exchanged between."""
    part_of_warp = threads <= WARP and not threads & (threads - 1) and not block % WARP
    if threads not in (1, block) and not part_of_warp:
        raise VerifyError(
            f"{stage}: row_threads must be a power of two up to {WARP}, with block a multiple of "
            f"{WARP}, or the whole block"
        )
