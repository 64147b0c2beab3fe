"""How CUDA sorts random keys: the launches of a bitonic sort, whose comparisons depend on nothing.

Sorted runs of 2, 4, 8, … elements, every other one downwards, are merged two at a time: of a run of
n elements, those n/2, n/4, …, 1 apart are compared and exchanged. Distances that fit in a block's
shared memory are done there in one launch, of the others some at a time in a thread's registers.
Source: Batcher, "Sorting networks and their applications", AFIPS 1968.
"""

from __future__ import annotations

from collections.abc import Iterator

from noeira.codegen.arch import Arch
from noeira.codegen.launches import launch
from noeira.codegen.lower import Body
from noeira.ir.plan import Choice, Stage
from noeira.ir.types import DTYPE_BYTES

# A key of 64 bits and a number.
ELEMENT_BYTES = DTYPE_BYTES["i64"] + DTYPE_BYTES["i32"]
# Elements that a block sorts: as much shared memory as every GPU gives a block.
PIECE = 4096
PIECE_BLOCK = 1024
# Distances that one launch does in registers: of 16 elements.
DISTANCES = 4
BLOCK = 256


def shuffle_choice(body: Body, arch: Arch) -> Choice:
    """Keys, sorted pieces, then for each length of runs the far distances and the near ones."""
    total = padded(body.node.outputs[0].type.size)
    piece = min(total, PIECE)
    block, shared = min(PIECE_BLOCK, piece // 2), piece * ELEMENT_BYTES
    blocks = total // piece
    stages = [
        launch("keys", -(-total // BLOCK), BLOCK, total=total),
        launch("sort", blocks, block, shared, piece=piece),
    ]
    run = 2 * piece
    while run <= total:
        stages += far_stages(run, piece, total)
        stages.append(launch(f"merge_{exponent(run)}", blocks, block, shared, piece=piece, run=run))
        run *= 2
    return Choice(tuple(stages), total * ELEMENT_BYTES)


def far_stages(run: int, piece: int, total: int) -> Iterator[Stage]:
    """The launches for the distances in a run from half of it down to the length of a piece."""
    distance = run // 2
    while distance >= piece:
        count = min(DISTANCES, exponent(distance // piece) + 1)
        name = f"step_{exponent(run)}_{exponent(distance)}"
        threads = total >> count
        block = min(BLOCK, threads)
        yield launch(name, threads // block, block, run=run, distance=distance, distances=count)
        distance >>= count


def padded(samples: int) -> int:
    """The power of two that is sorted, at least 2."""
    return 1 << max(1, exponent(samples - 1) + 1)


def exponent(number: int) -> int:
    """The number's logarithm to base 2, rounded down; -1 for 0."""
    return number.bit_length() - 1
