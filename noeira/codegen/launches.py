"""Launches on a GPU: the stages that say how many blocks of how many threads, and their limits."""

from __future__ import annotations

from noeira.codegen.arch import Arch
from noeira.errors import VerifyError
from noeira.ir.plan import Choice, Stage


def launch(name: str, grid: int, block: int, shared: int = 0, **options: int) -> Stage:
    """A stage of so many blocks of so many threads, with bytes of shared memory for a block."""
    memory = (("shared", shared),) if shared else ()
    return Stage(name, (("grid", grid), ("block", block), *options.items(), *memory))


def within(choice: Choice, arch: Arch) -> Choice:
    """The choice. Raises VerifyError if the GPU cannot launch it."""
    for stage in choice.stages:
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
    return choice
