"""What a compiled step does to its arena: only what the plan says, whatever was there before."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from needs import needs_compiler

import noeira
from noeira.ir.graph import ComputeGraph
from noeira.ir.plan import ARENA
from noeira.nn import GELU, Adam, CrossEntropy, Linear, LinearReLU, Residual, Sequential, Tanh
from noeira.runtime.c.compiled_entry import CompiledEntry

NETS = {
    "mlp": Sequential[LinearReLU[13, 33], LinearReLU[33, 17], Linear[17, 5]],
    "residual": Sequential[Linear[13, 17], Residual[LinearReLU[17, 17]], Tanh, GELU, Linear[17, 5]],
}
GUARD = 4096


def zero_gaps(entry: CompiledEntry) -> list[tuple[int, int]]:
    """Where packs with gaps lie in the arena: their gaps must be zero."""
    graph: ComputeGraph = entry.graph
    packs = [n.outputs[0].name for n in graph.nodes if n.op.name == "pack"]
    places = [entry.plan.place[name] for name in packs]
    return [(p.offset, p.size) for p in places if p.root == ARENA]


def predicted_end(entry: CompiledEntry) -> int:
    """One past the last byte of the arena that a call may write; packs are written by parts."""
    plan = entry.plan
    packs = {n.outputs[0].name for n in entry.graph.nodes if n.op.name == "pack"}
    ends = [p.offset + p.size for p in plan.places if p.root == ARENA and p.name not in packs]
    return max(ends + [c.workspace + c.choice.workspace for c in plan.calls])


def replace_arena(entry: CompiledEntry) -> np.ndarray:
    """An arena full of NaN but for the gaps, between guards; gives guards and arena together."""
    room = np.full(entry.plan.arena + 2 * GUARD + 64, 0xFF, np.uint8)
    start = GUARD + (-(room.ctypes.data + GUARD)) % 64
    entry.use_arena(room[start : start + entry.plan.arena])
    for offset, size in zero_gaps(entry):
        entry.arena[offset : offset + size] = 0
    return room


@pytest.mark.parametrize("net", NETS.values(), ids=NETS)
@pytest.mark.parametrize("batch", [1, 16, 100])
@needs_compiler
def test_garbage_in_the_arena_changes_nothing_and_the_guards_hold(net: type, batch: int) -> None:
    random = np.random.default_rng(0)
    x, y = random.standard_normal((batch, 13)).astype("f4"), random.integers(0, 5, batch)
    plain, poisoned = (
        noeira.compile(net, loss=CrossEntropy, optimizer=Adam(), batch=batch) for _ in range(2)
    )
    entry = poisoned.entries["step"]
    assert isinstance(entry, CompiledEntry)
    for _ in range(3):
        room = replace_arena(entry)
        before = entry.arena.copy()
        assert plain.step(x, y) == poisoned.step(x, y)
        outside = np.ones(len(room), bool)
        start = entry.arena.ctypes.data - room.ctypes.data
        outside[start : start + len(entry.arena)] = False
        assert (room[outside] == 0xFF).all()
        highest = int(np.flatnonzero(entry.arena != before)[-1]) + 1
        assert predicted_end(entry) - 4 < highest <= predicted_end(entry)
    assert plain.store.arrays["params"].tobytes() == poisoned.store.arrays["params"].tobytes()


GROWTH = """
import resource, sys
import numpy as np
import noeira
from noeira.nn import Adam, CrossEntropy, Linear, LinearReLU, Sequential

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize()

Net = Sequential[LinearReLU[2048, 2048], LinearReLU[2048, 2048], Linear[2048, 10]]
x, y = np.ones((1024, 2048), "f4"), np.zeros(1024, "i4")
noeira.compile(Linear[3, 2], loss=CrossEntropy, optimizer=Adam(), batch=2).step(x[:2, :3], y[:2])
before = resident()
program = noeira.compile(Net, loss=CrossEntropy, optimizer=Adam(), batch=1024)
for _ in range(3):
    program.step(x, y)
plan = program.plans["step"]
predicted = plan.peak_bytes() - x.nbytes - y.nbytes
print(resident() - before, predicted)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc/self/statm")
@needs_compiler
def test_the_process_grows_by_what_the_plan_predicts() -> None:
    run = subprocess.run([sys.executable, "-c", GROWTH], capture_output=True, text=True, check=True)
    grown, predicted = map(int, run.stdout.split())
    assert grown == pytest.approx(predicted, rel=0.05)
