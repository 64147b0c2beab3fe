"""Kernels of many cases in one unit of CUDA, launched on the CPU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import pytest
from guarded import Guarded, workspace_of
from limits import Limits, limited
from sweep import Case
from unit_cache import unit_cache

from noeira.codegen.cuda.arch import arch
from noeira.codegen.cuda.prelude import device_prelude
from noeira.codegen.cuda.target import CudaTarget
from noeira.codegen.definitions import identifiers
from noeira.codegen.kernel import kernel_text
from noeira.codegen.view import function_names
from noeira.ir.plan import Call, Choice, Stage
from noeira.runtime.build.cache_entry import digest_of
from noeira.runtime.cuda_cpu.compiler import find_cxx_compiler
from noeira.runtime.cuda_cpu.module import CudaCpuModule, Region
from noeira.runtime.cuda_cpu.shared_library import build, cuda_cpu_identity

TARGET = CudaTarget(arch("sm_80"))
# With blocks for one multiprocessor, the few blocks of small samples take turns.
ONE = CudaTarget(replace(TARGET.machine, multiprocessors=1))
# Every value begins at such a multiple of bytes.
ALIGNMENT = 64
# Orders of blocks and threads, with a seed: no result may depend on either.
WAYS = (("forward", 0), ("reverse", 0), ("random", 1), ("random", 2))


@dataclass(frozen=True)
class CudaKernels:
    """The kernels of many cases in one CUDA unit."""

    cases: tuple[Case, ...]
    choices: tuple[Choice, ...]
    target: CudaTarget = TARGET

    @classmethod
    def of(
        cls, cases: Sequence[Case], target: CudaTarget = TARGET, limits: Limits | None = None
    ) -> CudaKernels:
        """The kernels as the target chooses them, with these limits for blocks and chunks."""
        with limited(limits or {}):
            return cls(tuple(cases), tuple(target.choose(case.node) for case in cases), target)

    @cached_property
    def symbols(self) -> tuple[str, ...]:
        """The name of each case's kernel; equal kernels have one."""
        numbers = {text: number for number, text in enumerate(self.texts)}
        return tuple(f"kernel_{numbers[text]}" for text in self.case_texts)

    @cached_property
    def case_texts(self) -> tuple[str, ...]:
        """The text of each case's kernel, its name left open."""
        pairs = zip(self.cases, self.choices, strict=True)
        return tuple(
            kernel_text(Call(c.node, choice), self.target, "KERNEL") for c, choice in pairs
        )

    @cached_property
    def texts(self) -> dict[str, str]:
        """The label of the first case of every distinct text."""
        found: dict[str, str] = {}
        for case, text in zip(self.cases, self.case_texts, strict=True):
            found.setdefault(text, case.label)
        return found

    @cached_property
    def text(self) -> str:
        """The unit."""
        named = (
            f"// {label}\n" + text.replace("KERNEL", f"kernel_{number}")
            for number, (text, label) in enumerate(self.texts.items())
        )
        body = "\n".join(named)
        return f"{device_prelude(identifiers(body))}\n{body}"

    def built(self, check: bool = False) -> CudaLibrary:
        """The unit as a library for the CPU, which other runs of the tests share; the test is
        skipped without a C++ compiler.
        """
        cache, compiler = unit_cache(), find_cxx_compiler()
        if compiler is None:
            pytest.skip("there is no C++ compiler")

        def files(folder: Path) -> dict[str, bytes | Path]:
            return {"unit.so": build(self.text, folder, check).read_bytes()}

        key = digest_of("sweep", self.text, str(check), cuda_cpu_identity(compiler))
        entry = cache.get(key)
        if entry is None:
            with cache.building(key):
                entry = cache.get(key) or cache.put(key, cache.work(files))
        return CudaLibrary(self, CudaCpuModule(entry.path("unit.so")), check)


@dataclass(frozen=True)
class CudaLibrary:
    """Built kernels."""

    kernels: CudaKernels
    unit: CudaCpuModule
    check: bool = False
    ways = WAYS

    @cached_property
    def numbers(self) -> dict[int, int]:
        """The number of each case, by its identity."""
        return {id(case): number for number, case in enumerate(self.kernels.cases)}

    def run(
        self,
        case: Case,
        arrays: Sequence[np.ndarray],
        way: tuple[str, int] = WAYS[0],
        in_place: bool = False,
    ) -> list[np.ndarray]:
        """The outputs of a case. `way`: an order of blocks and threads, with a seed. `in_place`:
        outputs take over the memory of the operands that the op lets them have. Raises KernelFault.
        """
        number = self.numbers[id(case)]
        choice, aliases = self.kernels.choices[number], case.aliases(in_place)
        memory = Guarded.of(case.label, arrays, case.node.outputs, aliases, ALIGNMENT)
        workspace = workspace_of(choice.workspace, ALIGNMENT)
        space = workspace.ctypes.data if choice.workspace else 0
        pointers = [space, *memory.pointers]
        regions = (
            self.regions(choice, workspace, memory.inputs, memory.outputs) if self.check else ()
        )
        names = function_names(Call(case.node, choice), self.kernels.symbols[number])
        launch_stages(self.unit, names, choice.stages, pointers, *way, regions)
        for region in regions:
            missing = region.never_written() if region.name.startswith("y") else []
            assert not missing, f"{case.label}: {region.name} is not written at {missing}"
        return memory.results()

    def regions(
        self,
        choice: Choice,
        workspace: np.ndarray,
        inputs: Sequence[np.ndarray],
        outputs: Sequence[np.ndarray],
    ) -> list[Region]:
        """What a kernel may touch."""
        found = []
        if choice.workspace:
            found.append(Region(workspace.ctypes.data, choice.workspace, "workspace", False, True))
        own = {array.ctypes.data for array in outputs}
        for i, array in enumerate(inputs):
            name, shared = f"a{i}", array.ctypes.data in own
            found.append(Region(*place_of(array), name, True, shared))
        given = {array.ctypes.data for array in inputs}
        for i, array in enumerate(outputs):
            if array.ctypes.data not in given:
                found.append(Region(*place_of(array), f"y{i}", False, True, array.itemsize))
        return found


def launch_stages(
    unit: CudaCpuModule,
    names: Sequence[str],
    stages: Sequence[Stage],
    pointers: Sequence[int],
    order: str,
    seed: int,
    regions: Sequence[Region],
) -> None:
    """Launches the kernels of all stages on the CPU. Raises KernelFault."""
    for name, stage in zip(names, stages, strict=True):
        o = dict(stage.options)
        size = o["grid"], o["block"], o.get("shared", 0)
        unit.launch(name, *size, pointers, order=order, seed=seed, regions=regions)


def place_of(array: np.ndarray) -> tuple[int, int]:
    """Address and bytes."""
    return array.ctypes.data, array.nbytes
