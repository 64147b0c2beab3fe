"""The choices that a search may try for a kernel, likely ones first; and the problems they solve.

A rule gives one choice by shape; here are the others that could be better on some machine. They
are stages with options, as in a plan; whatever the target accepts may stand in a table.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from noeira.codegen.gemm import COPIED_BYTES, Cut, Gemm, GemmChoice, gemm_run
from noeira.codegen.gemm_rule import panels_at_a_time
from noeira.codegen.target import ISA
from noeira.errors import VerifyError
from noeira.ir.choices import Factor, Problem
from noeira.ir.plan import Stage
from noeira.ir.types import DTYPE_BYTES, TensorType

GEMM = "gemm"
# Of the ways to cut a product into tiles, those of least estimated work.
TILINGS = 20
# Blocks of k summed apart: how many, of how many steps at least, and how many tiles are enough.
PIECES = (2, 4, 8)
STEPS = 128
MOST_PIECES = 64
# Bytes of one panel of b over a block of k that are tried: all of k, parts of an L2 cache, half an
# L1 cache.
PANEL_BYTES = (None, 128 * 1024, 256 * 1024, 64 * 1024, 16 * 1024)


def gemm_problem(gemm: Gemm, dtype: str, target: str) -> Problem:
    """The problem that a GEMM is, its operands as they are stored."""
    a = (gemm.k, gemm.m) if gemm.transpose_a else (gemm.m, gemm.k)
    b = (gemm.n, gemm.k) if gemm.transpose_b else (gemm.k, gemm.n)
    factors = (
        Factor(TensorType(dtype, a), gemm.transpose_a),
        Factor(TensorType(dtype, b), gemm.transpose_b),
    )
    return Problem(GEMM, factors, target)


def problem_gemm(problem: Problem) -> tuple[Gemm, str]:
    """The GEMM of a problem, and its dtype. Raises VerifyError if it is no product of matrices."""
    shapes = [factor.type.shape for factor in problem.factors]
    dtypes = {factor.type.dtype for factor in problem.factors}
    if len(shapes) != 2 or any(len(shape) != 2 or min(shape) < 1 for shape in shapes):
        raise VerifyError(f"{problem.product}: expected two matrices, such as f32[100, 784]")
    if len(dtypes) != 1 or not dtypes <= {"f32", "f64"}:
        raise VerifyError(f"{problem.product}: expected two matrices of f32, or two of f64")
    (m, k), (rows, n) = (
        shape[::-1] if factor.transposed else shape
        for shape, factor in zip(shapes, problem.factors, strict=True)
    )
    if k != rows:
        raise VerifyError(f"{problem.product}: {k} columns do not fit {rows} rows")
    a, b = (factor.transposed for factor in problem.factors)
    return Gemm(m, n, k, "a0", "a1", "r0", a, b, partial="y0"), dtypes.pop()


def gemm_candidates(gemm: Gemm, dtype: str, isa: ISA) -> Iterator[tuple[Stage, ...]]:
    """The stages to try for a GEMM: the likely ways to cut it into tiles, each with k in blocks of
    several lengths, with one panel or many at a time, with b copied or not.

    Likely tilings meet likely ways to run them first, so that any number of candidates is a fair
    sample.
    """
    lanes = isa.lanes(dtype)
    copies = (True,) if gemm.transpose_b else (False, True)
    together = product(PANEL_BYTES, (True, False), (False, True), (None,), copies)
    apart = product((None,), (False,), (False,), PIECES, copies)
    ways = [*together, *apart]
    tilings = gemm_tilings(gemm, dtype, isa)
    pairs = product(range(len(tilings)), range(len(ways)))
    for i, j in sorted(pairs, key=lambda pair: pair[0] + 2 * pair[1]):
        row_tiles, panels = tilings[i]
        panel_bytes, many, by_rows, pieces, copied = ways[j]
        row = panels.size * lanes * DTYPE_BYTES[dtype]
        if pieces is not None:
            if row_tiles.count * panels.count * pieces > MOST_PIECES or gemm.k < pieces * STEPS:
                continue
            blocks = Cut(gemm.k, pieces)
        else:
            count = -(-gemm.k * row // panel_bytes) if panel_bytes else 1
            blocks = Cut(gemm.k, min(count, gemm.k))
        group = panels_at_a_time(blocks, panels) if many else 1
        choice = GemmChoice(
            row_tiles, panels, blocks, group, by_rows, pieces is not None, copied, dtype, lanes
        )
        if choice.copied_bytes <= COPIED_BYTES:
            yield gemm_run(gemm, choice).stages


def gemm_tilings(gemm: Gemm, dtype: str, isa: ISA) -> list[tuple[Cut, Cut]]:
    """Cuts into tiles of rows and panels of vectors, those of least estimated work first; a tile
    fits the registers: its sums, a vector of b for each of its columns, a broadcast and a product.
    """
    width = -(-gemm.n // isa.lanes(dtype))
    found = dict[tuple[int, int], tuple[Cut, Cut]]()
    for vectors in range(1, min(width, isa.registers) + 1):
        for rows in range(1, min(gemm.m, isa.registers) + 1):
            if rows * vectors + vectors + 2 <= isa.registers:
                cuts = Cut(gemm.m, -(-gemm.m // rows)), Cut(width, -(-width // vectors))
                found[cuts[0].count, cuts[1].count] = cuts
    return sorted(found.values(), key=lambda cuts: work(*cuts))[:TILINGS]


def work(row_tiles: Cut, panels: Cut) -> float:
    """Cycles for a step of k: a tile's multiply-adds and loads compete, none hides a latency of 4;
    tiles of several sizes are more code.
    """
    total = 0.0
    for rows in row_tiles.sizes:
        for vectors in panels.sizes:
            count = row_tiles.pieces(rows) * panels.pieces(vectors)
            total += count * (max(rows * vectors / 2, 2 * vectors, 4) + (rows + vectors) / 20)
    return total * (1 + 0.01 * (len(row_tiles.sizes) * len(panels.sizes) - 1))
