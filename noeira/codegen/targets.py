"""Targets by their names in plans."""

from __future__ import annotations

from noeira.codegen.c.isa import ISAS
from noeira.codegen.c.target import CTarget
from noeira.codegen.cuda.arch import arch
from noeira.codegen.cuda.target import CudaTarget
from noeira.errors import DeviceError
from noeira.ir.choices import NO_CHOICES, Choices


def target_named(name: str, choices: Choices = NO_CHOICES) -> CTarget | CudaTarget:
    """The target `c avx512` or `cuda sm_90`, with a table of choices.

    Raises DeviceError for one that there is not.
    """
    language, _, kind = name.partition(" ")
    if language == "c" and kind in ISAS:
        return CTarget(ISAS[kind], choices)
    if language == "cuda":
        return CudaTarget(arch(kind))
    known = ", ".join(f"c {isa}" for isa in ISAS)
    raise DeviceError(f"there is no target {name!r}; there are {known}, and cuda sm_80, …")
