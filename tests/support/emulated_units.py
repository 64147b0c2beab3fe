"""Units of small kernels on the CPU, and how they are run."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from noeira.errors import KernelFault
from noeira.runtime.cuda_cpu.module import CudaCpuModule, Region
from noeira.runtime.cuda_cpu.shared_library import build

TEXT = (Path(__file__).parents[1] / "support" / "emulator_kernels.cu").read_text(encoding="utf-8")


ORDERS = [("forward", 0), ("reverse", 0), ("random", 1), ("random", 2)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("emulator")


def made(text: str, folder: Path, check: bool = False) -> CudaCpuModule:
    """A unit built in a folder of its own."""
    path = folder / f"unit{len(list(folder.iterdir()))}"
    path.mkdir()
    return CudaCpuModule(build(text, path, check))


@pytest.fixture(scope="module")
def fast(folder: Path) -> CudaCpuModule:
    return made(TEXT, folder)


@pytest.fixture(scope="module")
def checked(folder: Path) -> CudaCpuModule:
    return made(TEXT, folder, check=True)


@pytest.fixture(params=["fast", "checked"])
def unit(request: pytest.FixtureRequest) -> CudaCpuModule:
    return request.getfixturevalue(request.param)


@cache
def line_of(mark: str) -> int:
    """The line of the kernels' text that is marked."""
    return next(
        n for n, line in enumerate(TEXT.splitlines(), 1) if line.endswith(f"// here {mark}")
    )


def floats(count: int, seed: int = 0) -> np.ndarray:
    """Random numbers whose address is a multiple of 64 bytes."""
    space = np.empty(count + 16, np.float32)
    array = space[-(space.ctypes.data // 4) % 16 :][:count]
    array[:] = np.random.default_rng(seed).standard_normal(count)
    return array


def run(
    unit: CudaCpuModule,
    name: str,
    grid: int,
    block: int,
    inputs: Sequence[np.ndarray | None],
    outputs: Sequence[np.ndarray],
    shared: int = 0,
    order: str = "forward",
    seed: int = 0,
    initialised: bool = False,
) -> list[Region]:
    """Launch with inputs that may only be read and outputs that are to be written; gives these."""
    reads = [
        Region(a.ctypes.data, a.nbytes, f"a{i}", writable=False)
        for i, a in enumerate(inputs)
        if a is not None
    ]
    writes = [
        Region(y.ctypes.data, y.nbytes, f"y{i}", initialised, granule=y.itemsize)
        for i, y in enumerate(outputs)
    ]
    pointers = [None if a is None else a.ctypes.data for a in (*inputs, *outputs)]
    unit.launch(name, grid, block, shared, pointers, order, seed, [*reads, *writes])
    return writes


def tells_line(fault: KernelFault, line: int) -> bool:
    """Whether a launch's faults name a line: of a race, either of the two."""
    faults = (fault, *fault.others)
    return any(f.line == line or f"line {line};" in f.text for f in faults)


# Kernel, kind, inputs, whether fast mode finds it too, words of its text.
MISTAKES = [
    ("race_in_block", "race", 0, False, "writes dynamic shared memory at byte"),
    ("race_in_warp", "race", 0, False, "there is no barrier between"),
    ("race_of_blocks", "race", 0, False, "blocks have no order"),
    ("race_after_reads", "race", 0, False, "shared memory at byte 0, which thread 0 wrote"),
    ("race_with_atomic", "race", 0, False, "total at byte 0, which thread"),
    ("race_with_start", "race", 0, False, "changes local at byte 0, which thread 0 wrote at"),
    ("beyond", "out of bounds", 1, False, "0 bytes after the end of a0, which has 256 bytes"),
    (
        "before",
        "out of bounds",
        0,
        False,
        "writes 4 bytes that begin 4 bytes before the start of y0",
    ),
    ("beyond_shared", "out of bounds", 0, False, "0 bytes after the end of dynamic shared memory"),
    (
        "beyond_array",
        "out of bounds",
        0,
        False,
        "index 64 is outside an array of type 'float [64]'",
    ),
    (
        "beyond_wide",
        "out of bounds",
        1,
        False,
        f"in a function it calls, at line {line_of('load4')}",
    ),
    ("beyond_local", "out of bounds", 0, False, "index 4 is outside an array of type 'float [4]'"),
    ("through_null", "out of bounds", -1, False, "writes 4 bytes through NULL"),
    ("unwritten_shared", "uninitialised", 0, False, "reads 4 bytes at byte 252 of dynamic shared"),
    ("unwritten_output", "uninitialised", 0, False, "of y0, which nobody wrote"),
    ("writes_input", "read-only", 1, False, "of a0, which the kernel may only read"),
    ("misaligned", "misaligned", 1, True, "8 bytes past a multiple of 16"),
    ("diverges", "divergence", 0, True, "waits at a barrier, but thread"),
    ("never_shuffled", "deadlock", 0, True, "which waits in __syncthreads at line"),
    ("not_in_mask", "divergence", 0, True, "with mask 0x0000ffff, in which its own lane"),
    ("asserts", "assertion", 0, True, "threadIdx.x < 60 is false"),
    ("mixed_masks", "divergence", 0, True, "of its warp waits in __"),
]
