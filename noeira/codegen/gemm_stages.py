"""From a node to its GEMM, and between a GEMM's cut and the stages that stand in a plan."""

from __future__ import annotations

from noeira.codegen.gemm import COPIED_BYTES, TILE_VECTORS, USUAL, Cut, Gemm, GemmChoice, gemm_run
from noeira.codegen.gemm_rule import choose_gemm
from noeira.codegen.lower import Body, operand_id, rows_and_columns
from noeira.codegen.target import ISA, ISAS
from noeira.errors import VerifyError
from noeira.ir.choices import Factor, Problem
from noeira.ir.plan import Choice, Stage
from noeira.ir.types import TensorType


def gemm_of(body: Body) -> Gemm:
    """The GEMM of a contraction; its first output holds the sums between blocks of k."""
    assert body.anchor is not None
    anchor, attrs = body.anchor, body.anchor.attrs
    transpose_a = getattr(attrs, "transpose_a", False)
    transpose_b = getattr(attrs, "transpose_b", False)
    left, right = (v.type for v in anchor.inputs[:2])
    rows, columns = rows_and_columns(left)
    m, k = (columns, rows) if transpose_a else (rows, columns)
    n = right.shape[0] if transpose_b else right.shape[-1]
    a, b = (operand_id(body.node, anchor, i) for i in (0, 1))
    return Gemm(m, n, k, a, b, "r0", transpose_a, transpose_b, partial="y0")


def gemm_choice(body: Body, isa: ISA) -> Choice:
    """A GEMM by rule: its tiles, panels and blocks as numbers, and how they are run."""
    gemm = gemm_of(body)
    dtype = body.node.outputs[0].type.dtype
    return gemm_run(gemm, choose_gemm(gemm, dtype, isa))


def check_workspace(choice: Choice, needed: int) -> None:
    """Raises VerifyError if the workspace of a choice, which a person may have edited, is smaller
    than its stages need.
    """
    if choice.workspace < needed:
        stages = " ".join(map(str, choice.stages))
        given = f"not {choice.workspace:,}" if choice.workspace else "and has none"
        raise VerifyError(f"{stages}: needs a workspace of {needed:,} bytes, {given}")


def gemm_stages(gemm: Gemm, stages: tuple[Stage, ...], dtype: str, isa: ISA) -> Choice:
    """The choice that stages are for a GEMM. Raises VerifyError if they do not fit its shape."""
    text = " ".join(map(str, stages))
    if not stages or stages[0].name != "gemm":
        raise VerifyError(f"{text}: expected a stage gemm{{…}}")
    known = ("row_tiles", "panels", *USUAL)
    for key, _ in stages[0].options:
        if key not in known:
            raise VerifyError(f"gemm has no option {key}; it has {', '.join(known)}")
    choice = gemm_run(gemm, gemm_cut(gemm, stages[0], dtype, isa))
    if choice.stages[1:] != stages[1:]:
        raise VerifyError(f"{text}: expected {' '.join(map(str, choice.stages))}")
    return choice


def gemm_cut(gemm: Gemm, stage: Stage, dtype: str, isa: ISA) -> GemmChoice:
    """The cut that a stage's options describe. Raises VerifyError if they do not fit the shape."""
    options, lanes = USUAL | dict(stage.options), isa.lanes(dtype)

    def cut(name: str, extent: int) -> Cut:
        count = options.get(name)
        if not isinstance(count, int) or not 1 <= count <= extent:
            raise VerifyError(f"{stage}: {name} must be a whole number from 1 to {extent}")
        return Cut(extent, count)

    def switch(name: str) -> bool:
        value = options.get(name)
        if not isinstance(value, bool):
            raise VerifyError(f"{stage}: {name} must be true or false")
        return value

    row_tiles, panels = cut("row_tiles", gemm.m), cut("panels", -(-gemm.n // lanes))
    blocks, group = cut("blocks", gemm.k), cut("group", panels.count).count
    by_rows, apart, pack_b = switch("by_rows"), switch("apart"), switch("pack_b")
    split = switch("split")
    if gemm.transpose_b and not pack_b and (blocks.count > 1 or not gemm.dot_products(row_tiles)):
        raise VerifyError(f"{stage}: pack_b must be true, since b is read transposed")
    if apart and (by_rows or group > 1 or blocks.count == 1):
        raise VerifyError(f"{stage}: apart needs blocks > 1, group = 1 and by_rows = false")
    if row_tiles.size * panels.size > TILE_VECTORS:
        raise VerifyError(
            f"{stage}: a tile of {row_tiles.size} rows by {panels.size} vectors has more than "
            f"{TILE_VECTORS} sums: more row_tiles or panels"
        )
    choice = GemmChoice(
        row_tiles, panels, blocks, group, by_rows, apart, pack_b, dtype, lanes, split
    )
    if choice.copied_bytes > COPIED_BYTES:
        raise VerifyError(
            f"{stage}: pack_b copies {choice.copied_bytes:,} bytes of b at a time, at most "
            f"{COPIED_BYTES:,} have room on a stack: more blocks or panels, or a smaller group"
        )
    return choice


def gemm_problem(gemm: Gemm, dtype: str, target: str) -> Problem:
    """The problem that a GEMM is, its operands as they are stored."""
    a = (gemm.k, gemm.m) if gemm.transpose_a else (gemm.m, gemm.k)
    b = (gemm.n, gemm.k) if gemm.transpose_b else (gemm.k, gemm.n)
    factors = (
        Factor(TensorType(dtype, a), gemm.transpose_a),
        Factor(TensorType(dtype, b), gemm.transpose_b),
    )
    return Problem("gemm", factors, target)


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


def check_row(problem: Problem, stages: tuple[Stage, ...]) -> None:
    """Raises VerifyError unless the stages of a table's row fit its problem."""
    isa = ISAS.get(problem.target.removeprefix("c "))
    if isa is None or problem.kind != "gemm":
        targets = ", ".join(f"c {name}" for name in ISAS)
        raise VerifyError(f"{problem}: there are choices for gemm, and for {targets}")
    gemm, dtype = problem_gemm(problem)
    gemm_stages(gemm, stages, dtype, isa)
