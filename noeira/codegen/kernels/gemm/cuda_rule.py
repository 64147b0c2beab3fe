"""The static rule that cuts a GEMM for a GPU: by shape and kind of GPU alone, never timed.

Every tile of a list, with k whole or in pieces, is given an estimated number of cycles; the least
wins. A multiprocessor holds as many blocks at a time as registers, shared memory and threads allow,
and works through the blocks that fall to it in waves of so many. In a wave, each tile of `depth`
steps takes the longer of two:

* what the multiprocessor has to do for all blocks of the wave: fma for every sum and step, the
  instructions with the reads of shared memory that feed them, the bytes of these reads, and the
  bytes from the L2 cache. The longest of these counts, and a quarter of the others, since they
  overlap but never wholly;
* what one block takes alone, however idle the rest is: its own instructions follow each other, and
  the fetch of its next tile takes its time.

So large tiles, which fetch fewer bytes for an fma, win where there are enough of them, and small
tiles or pieces of k where there are not. Rows, columns and steps beyond the matrix are paid like
others. Pieces of k cost a second launch, and their sums are written and read once more; they are
tried where there are fewer tiles than multiprocessors.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache

from noeira.codegen.cuda.arch import WARP, Arch
from noeira.codegen.kernels.gemm.cuda_cut import HALF, TOTAL_BLOCK, CudaGemmCut
from noeira.codegen.kernels.gemm.product import Gemm, Partition

# Rows, columns, depth, rows and columns of a thread.
TILES_F32 = (
    (128, 128, 16, 8, 8),
    (128, 64, 16, 8, 8),
    (64, 128, 16, 8, 8),
    (128, 64, 16, 8, 4),
    (64, 64, 16, 8, 4),
    (64, 64, 16, 4, 4),
    (64, 32, 16, 4, 4),
    (32, 64, 16, 4, 4),
    (32, 32, 16, 4, 4),
    (32, 32, 32, 4, 4),
    (32, 32, 32, 2, 4),
    (16, 64, 32, 2, 4),
    (16, 32, 32, 2, 4),
    (32, 16, 32, 4, 2),
    (64, 16, 32, 4, 4),
    (64, 8, 32, 4, 2),
    (16, 16, 32, 2, 2),
    (16, 16, 64, 2, 2),
    (8, 64, 32, 2, 4),
    (4, 64, 32, 1, 4),
    (64, 4, 32, 4, 1),
    (1, 128, 32, 1, 1),
    (1, 32, 64, 1, 1),
    (128, 1, 32, 1, 1),
    (32, 1, 64, 1, 1),
)
TILES_F64 = (
    (64, 64, 16, 4, 4),
    (64, 64, 8, 4, 4),
    (64, 32, 16, 4, 4),
    (32, 64, 16, 4, 4),
    (32, 32, 16, 4, 4),
    (32, 32, 16, 2, 4),
    *(tile for tile in TILES_F32 if tile[0] * tile[1] <= 1024 and tile[3] * tile[4] <= 8),
)
TILES = {"f32": TILES_F32, "f64": TILES_F64}
# Steps of a tile, at least.
LEAST_DEPTH = 8
# Products that a multiprocessor adds in a cycle, f32 and f64: the CUDA C++ Programming Guide,
# "Arithmetic Instructions"; of a GPU that is not listed, as of the newest.
FMA_LANES = {
    "sm_75": (64, 2),
    "sm_80": (64, 32),
    "sm_86": (128, 2),
    "sm_89": (128, 2),
    "sm_90": (128, 64),
    "sm_100": (128, 64),
}
# The parts of a multiprocessor, each of which starts an instruction in a cycle.
PARTS = 4
# Cycles of a part for a read of shared memory, and until the next of a chain of fma may begin.
READ_CYCLES = 2
CHAIN_CYCLES = 4
# Bytes that a multiprocessor has in a cycle from shared memory, and from the L2 cache.
SHARED_BYTES = 128
L2_BYTES = 32
# What counts as nearly the same.
NEARLY = 1.03
# How much of the shorter of two things that overlap is felt.
FELT = 0.25
# Cycles until what is fetched is there; of a barrier, with what goes before and after it; and of a
# second launch.
FETCH_CYCLES = 600
BARRIER_CYCLES = 60
LAUNCH_CYCLES = 3000
# Numbers of pieces of k that are tried, none shorter than so many steps; blocks in all for each
# multiprocessor, at most.
SPLITS = (2, 3, 4, 5, 6, 7, 8, 10, 12, 16, 20, 24, 32, 48, 64, 96, 128)
PIECE_STEPS = 32
SPLIT_BLOCKS_EACH = 4


@lru_cache(maxsize=1 << 14)
def choose_cuda_gemm(
    gemm: Gemm, dtype: str, arch: Arch, kind: type[CudaGemmCut] = CudaGemmCut
) -> CudaGemmCut:
    """The cut, of a kind, of nearly the least estimated cycles that does the least work in all."""
    estimates = [(cut, cycles(cut, arch)) for cut in candidates(gemm, dtype, arch, kind)]
    least = min(estimate for _, estimate in estimates)
    near = (cut for cut, estimate in estimates if estimate <= NEARLY * least)
    return min(near, key=lambda cut: cut.grid * cut.pieces.size * tile_work(cut, arch))


def candidates(
    gemm: Gemm, dtype: str, arch: Arch, kind: type[CudaGemmCut]
) -> Iterator[CudaGemmCut]:
    """All tiles, no deeper than k asks for, with k whole, and in pieces if they are few."""
    needed = max(LEAST_DEPTH, 1 << (gemm.k - 1).bit_length())
    for rows, columns, most, down, across in TILES[dtype]:
        depth = min(most, needed)
        steps = -(-gemm.k // depth)
        whole = kind(gemm, dtype, rows, columns, depth, down, across, Partition(steps, 1))
        yield whole
        if whole.grid >= arch.multiprocessors:
            continue
        most = min(
            steps, gemm.k // PIECE_STEPS, SPLIT_BLOCKS_EACH * arch.multiprocessors // whole.grid
        )
        for splits in SPLITS:
            if splits <= most:
                yield replace(whole, pieces=Partition(steps, splits))


def cycles(cut: CudaGemmCut, arch: Arch) -> float:
    """Estimated cycles of all launches; infinitely many if a block does not fit."""
    registers = HALF // cut.block if cut.resident else cut.registers
    at_a_time = arch.occupancy(registers, cut.shared, cut.block).blocks
    if not at_a_time or cut.grid > arch.grid:
        return math.inf
    waves, rest = divmod(-(-cut.grid // arch.multiprocessors), at_a_time)
    total = waves * wave_cycles(cut, at_a_time, arch) if waves else 0.0
    if rest:
        total += wave_cycles(cut, rest, arch)
    return total + total_cycles(cut, arch)


def wave_cycles(cut: CudaGemmCut, blocks: int, arch: Arch) -> float:
    """Cycles of so many blocks that a multiprocessor works on at a time."""
    sums, reads = cut.thread_rows * cut.thread_columns, sum(side.units for side in cut.sides)
    own = max(CHAIN_CYCLES, PARTS * WARP * sums / fma_lanes(cut, arch), sums + reads)
    own = max(own, READ_CYCLES * reads) * cut.depth * max(1.0, cut.block / WARP / PARTS)
    alone = max(own, FETCH_CYCLES) + BARRIER_CYCLES
    stored = cut.rows * cut.columns * cut.bytes / L2_BYTES
    tile = max(blocks * tile_work(cut, arch), alone)
    return 2 * FETCH_CYCLES + cut.pieces.size * tile + blocks * stored


def tile_work(cut: CudaGemmCut, arch: Arch) -> float:
    """Cycles that a multiprocessor is busy with a tile of `depth` steps of one block."""
    sums, reads = cut.thread_rows * cut.thread_columns, sum(side.units for side in cut.sides)
    # What the threads of a warp read together is handed out once.
    read = sum(
        side.units * max(1.0, width * side.unit * cut.bytes / SHARED_BYTES)
        for side, width in zip(cut.sides, cut.warp, strict=True)
    )
    steps = cut.block / WARP * cut.depth
    fetched = sum(side.extent for side in cut.sides) * cut.depth * cut.bytes / L2_BYTES
    kept = sum(side.accesses for side in cut.sides) / WARP
    fma = steps * sums * WARP / fma_lanes(cut, arch)
    parts = (fma, steps * (sums + reads) / PARTS + kept, steps * read + kept, fetched)
    return max(parts) + FELT * (sum(parts) - max(parts))


def fma_lanes(cut: CudaGemmCut, arch: Arch) -> int:
    """Products that a multiprocessor adds in a cycle."""
    return FMA_LANES.get(arch.name, FMA_LANES["sm_100"])[cut.dtype == "f64"]


def total_cycles(cut: CudaGemmCut, arch: Arch) -> float:
    """Cycles of the second stage."""
    if not cut.split:
        return 0.0
    blocks = -(-cut.size // (cut.lanes * TOTAL_BLOCK))
    busy = min(arch.multiprocessors, blocks)
    return LAUNCH_CYCLES + FETCH_CYCLES + cut.sums * cut.bytes / (busy * L2_BYTES)
