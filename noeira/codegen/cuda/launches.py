"""Launches on a GPU: the stages that say how many blocks of how many threads, and their limits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from noeira.codegen.cuda.arch import WARP, Arch
from noeira.codegen.cut import whole
from noeira.codegen.view import function_names
from noeira.errors import VerifyError
from noeira.ir.plan import Call, Stage


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


def stage_launches(call: Call, symbol: str) -> Iterator[StageLaunch]:
    """The launches of a call in order, one a stage; `symbol` is the name of its kernel."""
    for name, stage in zip(function_names(call, symbol), call.choice.stages, strict=True):
        options = dict(stage.options)
        shared = options.get("shared", 0)
        yield StageLaunch(name, stage.name, options["grid"], options["block"], shared)


def within(stages: Sequence[Stage], arch: Arch) -> None:
    """Raises VerifyError if the GPU cannot launch the stages, as an edited plan may ask for."""
    for stage in stages:
        options = dict(stage.options)
        for name in ("grid", "block"):
            if name not in options:
                raise VerifyError(f"{stage}: {name} is missing")
        for name in ("grid", "block", "shared"):
            value, least = options.get(name, 1), 0 if name == "shared" else 1
            if not whole(value) or value < least:
                raise VerifyError(f"{stage}: {name} must be a whole number of at least {least}")
        check_most(stage, arch)
        if options["block"] > WARP and options["block"] % WARP:
            raise VerifyError(f"{stage}: block must be at most {WARP}, or a multiple of {WARP}")


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
