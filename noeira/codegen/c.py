"""The C target: its name and types, and the static rule by which it runs a node in stages."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any

from noeira.codegen.candidates import gemm_candidates
from noeira.codegen.gemm import Gemm, GemmChoice, gemm_run
from noeira.codegen.gemm_stages import (
    check_workspace,
    gemm_choice,
    gemm_cut,
    gemm_of,
    gemm_problem,
    gemm_stages,
)
from noeira.codegen.loops import LINE_BYTES
from noeira.codegen.lower import Body, body_of, rows_and_columns
from noeira.codegen.target import CTYPES, ISA
from noeira.ir.choices import NO_CHOICES, Choices, Problem, Row
from noeira.ir.graph import Node
from noeira.ir.plan import Choice, Stage
from noeira.ir.types import DTYPE_BYTES

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
# Longer rows are read once, for their maximum and the sum of their exponentials together: shorter
# ones are still in the L1 cache when they are read again.
LONG_ROW_BYTES = 1 << 14
# How far ahead of the copy memory is asked for the rows of a data set.
AHEAD_BYTES = 1 << 13
AHEAD_ROWS = 16
# Of a row so many cache lines: the processor itself finds out that more follow.
AHEAD_LINES = 8
# A kernel that moves more bytes than any cache holds stores past the caches: whoever reads the
# result next finds it in memory anyway, and memory is not read before it is written.
STREAM_BYTES = 1 << 26


@dataclass(frozen=True)
class CTarget:
    """C for one kind of vector unit, with the choices of a table where it has them."""

    isa: ISA
    choices: Choices = NO_CHOICES
    language = "c"
    ending = "c.j2"

    @property
    def name(self) -> str:
        """`c avx512`"""
        return f"c {self.isa.name}"

    def ctype(self, dtype: str) -> str:
        """The C type of an element; 16-bit floats are stored as their bits."""
        return CTYPES[dtype]

    @property
    def key(self) -> Hashable:
        """The vector unit decides a kernel's text."""
        return self.isa

    def lanes(self, dtype: str) -> int:
        """Elements of a vector."""
        return self.isa.lanes(dtype)

    def gemm_cut(self, gemm: Gemm, choice: Choice, symbol: str, dtype: str) -> GemmChoice:
        """How a GEMM is cut into tiles. Raises VerifyError if the stages do not fit its shape, or
        their workspace is too small.
        """
        cut = gemm_cut(gemm, choice.stages[0], dtype, self.isa)
        check_workspace(choice, gemm_run(gemm, cut).workspace)
        return cut

    def choose(self, node: Node) -> Choice:
        """The stages of a node's kernel and its workspace: the table's, else by rule."""
        row = self.row(node)
        return self.rule(node) if row is None else self.completed(node, row.stages)

    def rule(self, node: Node) -> Choice:
        """The stages by the static rule: by shape alone, never timed."""
        body = body_of(node)
        return RULES.get(body.template, one_stage)(body, self.isa)

    def row(self, node: Node) -> Row | None:
        """The row of the table that decides a node's stages; None if the rule does."""
        problem = self.problem(node) if self.choices.rows else None
        return None if problem is None else self.choices.find(problem)

    def problem(self, node: Node) -> Problem | None:
        """What a node is in a table of choices; None if there is nothing to choose."""
        body = body_of(node)
        if body.template != "gemm":
            return None
        return gemm_problem(gemm_of(body), node.outputs[0].type.dtype, self.name)

    def candidates(self, node: Node) -> tuple[Choice, ...]:
        """Choices that a search may try for a node, the rule's own first, then likely ones."""
        body, found = body_of(node), [self.rule(node)]
        if body.template == "gemm":
            tried = gemm_candidates(gemm_of(body), node.outputs[0].type.dtype, self.isa)
            found += [self.completed(node, stages) for stages in tried]
        return tuple(dict.fromkeys(found))

    def completed(self, node: Node, stages: tuple[Stage, ...]) -> Choice:
        """The choice that these stages are for a node of a GEMM. Raises VerifyError if they do not
        fit its shape.
        """
        return gemm_stages(gemm_of(body_of(node)), stages, node.outputs[0].type.dtype, self.isa)


def splits(elements: int) -> tuple[tuple[str, Any], ...]:
    """The option that threads share the work, if it is worth while."""
    return (("split", True),) if elements >= SPLIT_ELEMENTS else ()


def streams(node: Node) -> tuple[tuple[str, Any], ...]:
    """The option to store past the caches, if the node moves too much for them."""
    moved = sum(v.type.nbytes for v in (*node.inputs, *node.outputs))
    return (("stream", True),) if moved >= STREAM_BYTES else ()


def one_stage(body: Body, isa: ISA) -> Choice:
    """One function; threads share the elements of the largest output."""
    largest = max(v.type.size for v in body.node.outputs)
    return Choice((Stage(body.template, splits(largest)),))


def row_choice(body: Body, isa: ISA) -> Choice:
    """One function; threads share the rows of the operand."""
    return Choice((Stage(body.template, splits(body.node.inputs[0].type.size)),))


def take_choice(body: Body, isa: ISA) -> Choice:
    """One function; memory is asked for the beginnings of rows some rows ahead."""
    (taken,) = body.node.outputs
    row_bytes = taken.type.nbytes // taken.type.shape[0]
    ahead = min(max(AHEAD_BYTES // row_bytes, 1), AHEAD_ROWS)
    lines = min(-(-row_bytes // LINE_BYTES), AHEAD_LINES)
    options = (("ahead", ahead), ("lines", lines), *splits(taken.type.size))
    return Choice((Stage(body.template, options),))


def streamed_choice(body: Body, isa: ISA) -> Choice:
    """One function, whose results go past the caches if they are large."""
    (stage,) = one_stage(body, isa).stages
    return Choice((Stage(stage.name, (*stage.options, *streams(body.node))),))


def shuffle_choice(body: Body, isa: ISA) -> Choice:
    """The keys, which threads share; then one thread sorts them to and fro between two places."""
    samples = body.node.outputs[0].type.size
    workspace = samples * (2 * DTYPE_BYTES["i64"] + DTYPE_BYTES["i32"])
    return Choice((Stage("keys", splits(samples)), Stage("sort")), workspace)


def column_choice(body: Body, isa: ISA) -> Choice:
    """Strips of columns; for many rows, chunks of them first, and then the sums of the chunks."""
    assert body.anchor is not None
    type = body.anchor.inputs[0].type
    rows, columns = rows_and_columns(type)
    vectors = -(-columns // isa.lanes(type.dtype))
    shared = (*splits(type.size), *(streams(body.node) if body.head else ()))
    if rows <= COLUMN_ROWS:
        options = (("vectors", min(COLUMN_VECTORS, vectors)), *shared)
        return Choice((Stage("column", options),))
    chunks = -(-rows // COLUMN_CHUNK_ROWS)
    width = min(COLUMN_CHUNK_VECTORS, vectors)
    stages = (
        Stage("chunks", (("rows", COLUMN_CHUNK_ROWS), ("vectors", width), *shared)),
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
    once = (("once", True),) if columns * DTYPE_BYTES[type.dtype] > LONG_ROW_BYTES else ()
    if rows * max(columns, isa.lanes(type.dtype)) < SPLIT_ELEMENTS:
        return Choice((Stage(body.template, once),), workspace)
    return Choice((Stage("rows", (("split", True), *once)), Stage("total")), workspace)


def top_k_choice(body: Body, isa: ISA) -> Choice:
    """Counts of chunks of rows, then their sum; one thread does few elements."""
    rows, columns = rows_and_columns(body.node.inputs[0].type)
    chunk = max(1, SPLIT_ELEMENTS // columns)
    chunks = -(-rows // chunk)
    workspace = chunks * DTYPE_BYTES["i64"]
    if chunks <= 2:
        return Choice((Stage(body.template, (("rows", chunk),)),), workspace)
    return Choice((Stage("chunks", (("rows", chunk), ("split", True))), Stage("total")), workspace)


RULES: dict[str, Callable[[Body, ISA], Choice]] = {
    "gemm": gemm_choice,
    "map": streamed_choice,
    "cross_entropy_grad": streamed_choice,
    "soft_cross_entropy_grad": streamed_choice,
    "softmax_grad": streamed_choice,
    "row_sum": row_choice,
    "take": take_choice,
    "shuffle": shuffle_choice,
    "column": column_choice,
    "sum": sum_choice,
    "mse": sum_choice,
    "cross_entropy": row_loss_choice,
    "soft_cross_entropy": row_loss_choice,
    "cross_entropy_grad_grad": row_loss_choice,
    "top_k": top_k_choice,
}
