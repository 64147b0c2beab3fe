"""The C target: its name and types, and the static rule by which it runs a node in stages."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from noeira.codegen.gemm import Cut, Gemm, GemmChoice, choose_gemm, workspace_bytes
from noeira.codegen.lower import Body, body_of, operand_id
from noeira.codegen.target import CTYPES, ISA
from noeira.errors import VerifyError
from noeira.ir.graph import Node
from noeira.ir.plan import Choice, Stage
from noeira.ir.types import DTYPE_BYTES, TensorType

# One thread does fewer elements: half of them in another processor's cache gains nothing.
SPLIT_ELEMENTS = 4096
# Elements of a sum that are added together before the partial sums are.
SUM_CHUNK = 4096
# Column sums of more rows are taken in chunks, so that threads can share tall, narrow matrices.
COLUMN_ROWS = 512
COLUMN_CHUNK_ROWS = 128
# Vectors of columns summed at a time: few where threads share columns; where they share rows, as
# much of a row as the L1 cache has room for the sums of.
COLUMN_VECTORS = 4
COLUMN_CHUNK_VECTORS = 256


@dataclass(frozen=True)
class CTarget:
    """C for one kind of vector unit."""

    isa: ISA

    @property
    def name(self) -> str:
        """`c avx512`"""
        return f"c {self.isa.name}"

    def ctype(self, dtype: str) -> str:
        """The C type of an element; 16-bit floats are stored as their bits."""
        return CTYPES[dtype]

    def choose(self, node: Node) -> Choice:
        """The stages of a node's kernel and its workspace: by shape alone, never timed."""
        body = body_of(node)
        return RULES.get(body.template, one_stage)(body, self.isa)


def rows_and_columns(type: TensorType) -> tuple[int, int]:
    """A tensor as a matrix: the last axis, and all others folded."""
    columns = type.shape[-1] if type.shape else 1
    return math.prod(type.shape[:-1]), columns


def splits(elements: int) -> tuple[tuple[str, Any], ...]:
    """The option that threads share the work, if it is worth while."""
    return (("split", True),) if elements >= SPLIT_ELEMENTS else ()


def one_stage(body: Body, isa: ISA) -> Choice:
    """One function; threads share the elements of the largest output."""
    largest = max(v.type.size for v in body.node.outputs)
    return Choice((Stage(body.template, splits(largest)),))


def column_choice(body: Body, isa: ISA) -> Choice:
    """Strips of columns; for many rows, chunks of them first, and then the sums of the chunks."""
    assert body.anchor is not None
    type = body.anchor.inputs[0].type
    rows, columns = rows_and_columns(type)
    vectors = -(-columns // isa.lanes(type.dtype))
    if rows <= COLUMN_ROWS:
        options = (("vectors", min(COLUMN_VECTORS, vectors)), *splits(type.size))
        return Choice((Stage("column", options),))
    chunks = -(-rows // COLUMN_CHUNK_ROWS)
    width = min(COLUMN_CHUNK_VECTORS, vectors)
    stages = (
        Stage("chunks", (("rows", COLUMN_CHUNK_ROWS), ("vectors", width), *splits(type.size))),
        Stage("total", splits(chunks * columns)),
    )
    return Choice(stages, chunks * columns * DTYPE_BYTES[type.dtype])


def sum_choice(body: Body, isa: ISA) -> Choice:
    """One thread for few elements; else chunks, and then the sum of their sums."""
    type = body.node.inputs[0].type
    if type.size < 2 * SPLIT_ELEMENTS:
        return Choice((Stage(body.template, (("size", type.size),)),), DTYPE_BYTES[type.dtype])
    chunks = Stage("chunks", (("size", SUM_CHUNK), ("split", True)))
    workspace = -(-type.size // SUM_CHUNK) * DTYPE_BYTES[type.dtype]
    return Choice((chunks, Stage("total")), workspace)


def row_loss_choice(body: Body, isa: ISA) -> Choice:
    """A number for each row into the workspace, then their sum; one thread does few elements."""
    type = body.node.inputs[0].type
    rows, columns = rows_and_columns(type)
    workspace = rows * DTYPE_BYTES[type.dtype]
    if rows * max(columns, isa.lanes(type.dtype)) < SPLIT_ELEMENTS:
        return Choice((Stage(body.template),), workspace)
    return Choice((Stage("rows", (("split", True),)), Stage("total")), workspace)


def top_k_choice(body: Body, isa: ISA) -> Choice:
    """Counts of chunks of rows, then their sum; one thread does few elements."""
    rows, columns = rows_and_columns(body.node.inputs[0].type)
    chunk = max(1, SPLIT_ELEMENTS // columns)
    chunks = -(-rows // chunk)
    workspace = chunks * DTYPE_BYTES["i64"]
    if chunks <= 2:
        return Choice((Stage(body.template, (("rows", chunk),)),), workspace)
    return Choice((Stage("chunks", (("rows", chunk), ("split", True))), Stage("total")), workspace)


def gemm_choice(body: Body, isa: ISA) -> Choice:
    """The GEMM's cut as numbers: tiles of rows, panels of columns, blocks of k, b copied or not."""
    gemm = gemm_of(body)
    dtype = body.node.outputs[0].type.dtype
    cut = choose_gemm(gemm.m, gemm.n, gemm.k, transpose_b=gemm.transpose_b, dtype=dtype, isa=isa)
    options = (
        ("row_tiles", cut.row_tiles.count),
        ("panels", cut.panels.count),
        ("blocks", cut.blocks.count),
        ("pack_b", cut.pack_b),
    )
    return Choice((Stage("gemm", options),), workspace_bytes(gemm, cut))


RULES: dict[str, Callable[[Body, ISA], Choice]] = {
    "gemm": gemm_choice,
    "column": column_choice,
    "sum": sum_choice,
    "mse": sum_choice,
    "cross_entropy": row_loss_choice,
    "soft_cross_entropy": row_loss_choice,
    "cross_entropy_grad_grad": row_loss_choice,
    "top_k": top_k_choice,
}


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


def gemm_cut(gemm: Gemm, stage: Stage, dtype: str, isa: ISA) -> GemmChoice:
    """The cut that a stage's options describe. Raises VerifyError if they do not fit the shape."""
    options, lanes = dict(stage.options), isa.lanes(dtype)

    def cut(name: str, extent: int) -> Cut:
        count = options.get(name)
        if not isinstance(count, int) or not 1 <= count <= extent:
            raise VerifyError(f"{stage}: {name} must be a whole number from 1 to {extent}")
        return Cut(extent, count)

    row_tiles, panels = cut("row_tiles", gemm.m), cut("panels", -(-gemm.n // lanes))
    blocks, pack_b = cut("blocks", gemm.k), options.get("pack_b")
    if not isinstance(pack_b, bool) or (gemm.transpose_b and not pack_b):
        wanted = "true, since b is read transposed" if gemm.transpose_b else "true or false"
        raise VerifyError(f"{stage}: pack_b must be {wanted}")
    return GemmChoice(row_tiles, panels, blocks, pack_b, dtype, lanes)
