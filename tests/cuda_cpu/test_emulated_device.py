"""Launches on the device of target `cuda-cpu`, and what check mode tells it of each."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from graphs import emit, f32
from needs import needs_cxx

from noeira.errors import KernelFault
from noeira.ir.builder import Builder
from noeira.ir.graph import Node
from noeira.ir.plan import Choice, Plan, Stage
from noeira.planning.memory import make_plan
from noeira.runtime.cuda_cpu.checked_launches import regions_of
from noeira.runtime.cuda_cpu.device import CudaCpuDevice, cuda_cpu_device
from noeira.runtime.cuda_cpu.shared_library import build
from noeira.runtime.device.device import Argument, BoundLaunch, Memory
from noeira.runtime.device.launched_entry import LaunchedEntry

# `body` is for thread i of 128, of which the first 100 have an element.
KERNEL = """
extern "C" __global__ void %s(unsigned char *workspace, const float *a0, float *y0) {
    float *const partial = (float *)workspace;
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    (void)partial; (void)a0; (void)y0;
    %s
}
"""
RIGHT = "if (i < 100) y0[i] = 2.0f * a0[i];"
FIRST = "if (i < 100) partial[i] = a0[i];"
SECOND = "if (i < 100) y0[i] = 2.0f * partial[99 - i];"


def plan_of(stages: int) -> Plan:
    """The plan of `y = 2 x`, of one stage, or of two with a workspace between them."""
    builder = Builder("small")
    x = builder.input("x", f32(100))
    y = emit(builder, "scale", x, hint="y", factor=2.0)

    def choose(node: Node) -> Choice:
        options = (("grid", 4), ("block", 32))
        if stages == 1:
            return Choice((Stage("map", options),))
        return Choice((Stage("first", options), Stage("second", options)), 400)

    return make_plan(builder.done([y]), choose, "cuda")


def entry_of(device: CudaCpuDevice, folder: Path, *bodies: str) -> LaunchedEntry:
    """An entry whose stages have these bodies."""
    names = ["k00"] if len(bodies) == 1 else ["k00_first", "k00_second"]
    text = "".join(KERNEL % pair for pair in zip(names, bodies, strict=True))
    library = build(text, folder, check=device.checked is not None)
    module = device.load(library)
    entry = LaunchedEntry(plan_of(len(bodies)), device, module, ["k00"])
    entry.bind_inputs([np.arange(100, dtype=np.float32)])
    return entry


@needs_cxx
@pytest.mark.parametrize("order", ["forward", "reverse", "random"])
@pytest.mark.parametrize("bodies", [(RIGHT,), (FIRST, SECOND)])
@pytest.mark.parametrize("check", [False, True])
def test_kernels_that_are_right(
    tmp_path: Path, order: str, bodies: tuple[str, ...], check: bool
) -> None:
    entry = entry_of(CudaCpuDevice(order, 3, check), tmp_path, *bodies)
    assert entry.run() == 1
    wanted = 2 * np.arange(100, dtype=np.float32)
    assert np.array_equal(entry.output("y"), wanted if len(bodies) == 1 else wanted[::-1])
    assert entry.run(3) == 3


FAULTS = {
    "beyond the output": ("if (i < 101) y0[i] = 1.0f;", "out of bounds"),
    "an element is left out": ("if (i < 99) y0[i] = 1.0f;", "unwritten output"),
    "the output is read first": ("if (i < 100) y0[i] += a0[i];", "uninitialised"),
    "an input is written": ("if (i < 100) ((float *)a0)[i] = y0[i] = 1.0f;", "write"),
}


@needs_cxx
@pytest.mark.parametrize("name", FAULTS)
def test_kernels_that_are_wrong(tmp_path: Path, name: str) -> None:
    body, kind = FAULTS[name]
    entry = entry_of(CudaCpuDevice(check=True), tmp_path, body)
    with pytest.raises(KernelFault, match=r"%[xy]") as fault:
        entry.run()
    assert fault.value.kernel == "k00" and kind in str(fault.value)


@needs_cxx
def test_a_workspace_that_is_read_where_it_was_not_written(tmp_path: Path) -> None:
    first = "if (i < 99) partial[i] = a0[i];"
    entry = entry_of(CudaCpuDevice(check=True), tmp_path, first, SECOND)
    with pytest.raises(KernelFault, match="the workspace of %y") as fault:
        entry.run()
    assert fault.value.kernel == "k00_second"


@needs_cxx
def test_faults_are_reported_and_the_next_launch_runs(tmp_path: Path) -> None:
    found: list[tuple[BoundLaunch, KernelFault]] = []

    def report(launch: BoundLaunch, fault: KernelFault) -> None:
        found.append((launch, fault))

    entry = entry_of(
        CudaCpuDevice(check=True, report=report),
        tmp_path,
        "if (i < 102) partial[i] = a0[i];",
        "if (i < 90) y0[i] = a0[i];",
    )
    assert entry.run() == 1
    assert [(launch.kernel, launch.stage) for launch, _ in found] == [
        ("k00_first", 0),
        ("k00_second", 1),
    ]
    assert found[1][0].call.startswith("%y")
    assert found[1][1].text == (
        "%y is not wholly written: 10 of 100 elements are not, the first of them 90"
    )


def argument(role: Any, pointer: int, nbytes: int, name: str = "") -> Argument:
    """An argument of floats."""
    return Argument(name or role, role, pointer, nbytes, 4)


def test_what_a_launch_may_touch() -> None:
    arguments = [
        argument("workspace", 0, 0),
        argument("input", 640, 100, "%a"),
        argument("input", 640, 100, "%a"),
        argument("input", 1280, 64, "%state"),
        argument("output", 1280, 64, "%state.next"),
        argument("output", 64, 8, "%y"),
    ]
    regions = [replace(region) for region in regions_of(arguments)]
    found = [(r.pointer, r.nbytes, r.name, r.initialised, r.writable) for r in regions]
    assert found == [
        (64, 8, "%y", False, True),
        (640, 100, "%a", True, False),
        (1280, 64, "%state and %state.next", True, True),
    ]
    part = regions_of([argument("input", 64, 100, "%a"), argument("output", 128, 100, "%b")])
    assert [(r.pointer, r.nbytes, r.initialised, r.writable) for r in part] == [
        (64, 164, True, True)
    ]


def test_memory_of_the_emulated_device() -> None:
    device = cuda_cpu_device()
    assert device is cuda_cpu_device()
    memory, copied = Memory(device, 100), np.zeros(25, np.float32)
    assert memory.pointer % 256 == 0
    numbers = np.arange(25, dtype=np.float32)
    device.copy_in(memory.pointer, numbers)
    device.copy(memory.pointer, memory.pointer + 48, 52)
    device.fill(memory.pointer + 96, 0, 4)
    device.copy_out(copied, memory.pointer)
    device.synchronize()
    assert copied.tolist() == [*range(12, 25), *range(13, 24), 0]
    free, total = device.memory()
    assert 0 < free <= total
    first = device.record()
    assert 0 <= device.elapsed(first, device.record()) < 1
    poisoned = Memory(CudaCpuDevice(check=True), 4)
    room = np.zeros(1, np.float32)
    device.copy_out(room, poisoned.pointer)
    assert np.isnan(room[0])
