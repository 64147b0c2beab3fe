"""The CUDA target: its name and types, and the static rule by which it runs a node in launches."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace

from noeira.codegen.arch import WARP, Arch, ceil_to
from noeira.codegen.cuda_gemm import CudaGemmChoice, cuda_gemm_choice, cuda_gemm_cut
from noeira.codegen.cuda_shuffle import shuffle_choice
from noeira.codegen.gemm import Gemm
from noeira.codegen.gemm_stages import check_workspace
from noeira.codegen.launches import launch, within
from noeira.codegen.lower import Body, body_of, rows_and_columns
from noeira.codegen.target import ACCESS_BYTES, CTYPES
from noeira.ir.choices import NO_CHOICES, Choices, Problem, Row
from noeira.ir.graph import Node
from noeira.ir.plan import Choice, Stage
from noeira.ir.types import DTYPE_BYTES

# Threads of a block that does element-wise work or adds up.
BLOCK = 256
# Blocks for each multiprocessor: enough to fill it some times over, the rest is done in turns.
BLOCKS_EACH = 16
# Rows up to so many bytes have at most a warp each, longer ones a block.
WARP_BYTES = 4096
ROW_BLOCK = 128
MOST_THREADS = 1024
# Bytes of a longer row that a thread keeps in registers: a block of 1024 has 64 registers for each.
HELD_BYTES = 64
# Threads' work on rows that one block does by itself, so that no second launch adds up.
LONE_THREADS = 2048
# Elements that one block adds up alone, since another launch would take longer; of more, those that
# a block adds up at least before the sums of blocks are added: each thread some accesses.
SUM_ALONE = 16384
SUM_CHUNK = 4096
# Rows that one block adds up of a strip of columns; of more, those that a block adds up at least,
# and how many blocks are wanted for each multiprocessor.
COLUMN_ROWS = 256
COLUMN_CHUNK_ROWS = 64
COLUMN_BLOCKS_EACH = 4
# And at most, so that a thread does not round a long sum too often.
COLUMN_MOST_ROWS = 1024


@dataclass(frozen=True)
class CudaTarget:
    """CUDA for one kind of GPU.

    choices: a table of tuned choices; there is none for CUDA so far.
    """

    arch: Arch
    choices: Choices = NO_CHOICES
    language = "cuda"
    ending = "cu.j2"

    @property
    def name(self) -> str:
        """`cuda sm_90`"""
        return f"cuda {self.arch.name}"

    @property
    def key(self) -> Hashable:
        """The kind of GPU decides a kernel's text, besides the choice."""
        return self.arch

    def ctype(self, dtype: str) -> str:
        """The C type of an element; 16-bit floats are stored as their bits."""
        return CTYPES[dtype]

    def lanes(self, dtype: str) -> int:
        """Elements of one access."""
        return ACCESS_BYTES // DTYPE_BYTES[dtype]

    def choose(self, node: Node) -> Choice:
        """The launches of a node's kernel and its workspace, by shape alone, never timed.

        Raises VerifyError if a launch wants more than the GPU has.
        """
        body = body_of(node)
        return within(RULES.get(body.template, flat_choice)(body, self.arch), self.arch)

    def problem(self, node: Node) -> Problem | None:
        """No table has anything of CUDA."""
        return None

    def row(self, node: Node) -> Row | None:
        """No table decides."""
        return None

    def gemm_cut(self, gemm: Gemm, choice: Choice, symbol: str, dtype: str) -> CudaGemmChoice:
        """How a GEMM is cut into tiles. Raises VerifyError if the stages do not fit its shape, or
        their workspace is too small.
        """
        cut = cuda_gemm_cut(gemm, choice.stages, symbol, dtype, self.arch)
        check_workspace(choice, cut.workspace)
        return cut


def blocks_for(items: int, block: int, arch: Arch) -> int:
    """Blocks for so many threads' work: one item each, or in turns if there are very many."""
    return max(1, min(-(-items // block), BLOCKS_EACH * arch.multiprocessors))


def flat_choice(body: Body, arch: Arch) -> Choice:
    """One launch over the elements of the largest output, as many at a time as an access has."""
    largest = max((v.type for v in body.node.outputs), key=lambda type: type.size)
    if largest.size == 1:
        return Choice((launch(body.template, 1, 1),))
    lanes = ACCESS_BYTES // DTYPE_BYTES[largest.dtype]
    return Choice(
        (launch(body.template, blocks_for(-(-largest.size // lanes), BLOCK, arch), BLOCK),)
    )


def adam_choice(body: Body, arch: Arch) -> Choice:
    """One launch over the elements, with room for two numbers that a block reckons once."""
    (stage,) = flat_choice(body, arch).stages
    shared = 2 * DTYPE_BYTES[body.node.inputs[0].type.dtype]
    return Choice((launch(stage.name, **dict(stage.options), shared=shared),))


def moving_choice(body: Body, arch: Arch) -> Choice:
    """One launch that moves rows as they are, in accesses as large as all lengths allow."""
    (moved,) = body.node.outputs
    element = DTYPE_BYTES[moved.type.dtype]
    start = getattr(body.node.attrs, "start", 0)
    lengths = [v.type.shape[-1] for v in (*body.node.inputs, moved) if v.type.shape]
    access = math.gcd(ACCESS_BYTES, element * math.gcd(start, *lengths))
    return moving_launch(body, access, arch)


def take_choice(body: Body, arch: Arch) -> Choice:
    """One launch that moves samples, in accesses as large as their length allows."""
    (moved,) = body.node.outputs
    access = math.gcd(ACCESS_BYTES, moved.type.nbytes // moved.type.shape[0])
    return moving_launch(body, access, arch)


def moving_launch(body: Body, access: int, arch: Arch) -> Choice:
    """One launch with a thread for so many bytes of the result."""
    grid = blocks_for(body.node.outputs[0].type.nbytes // access, BLOCK, arch)
    return Choice((launch(body.template, grid, BLOCK, access=access),))


def row_threads(columns: int, dtype: str) -> int:
    """Threads that take a row together: a power of two up to a warp, one for each access if there
    are so few; a block for a longer row, large enough to keep it in registers where one can.
    """
    size = DTYPE_BYTES[dtype]
    if columns * size <= WARP_BYTES:
        return min(WARP, power_of_two(columns // row_lanes(columns, dtype)))
    return min(max(ROW_BLOCK, power_of_two(-(-columns * size // HELD_BYTES))), MOST_THREADS)


def row_lanes(columns: int, dtype: str) -> int:
    """Elements of an access that whole rows consist of."""
    lanes = ACCESS_BYTES // DTYPE_BYTES[dtype]
    return 1 if columns % lanes else lanes


def power_of_two(number: int) -> int:
    """The next power of two."""
    return 1 << (number - 1).bit_length()


def held_elements(columns: int, dtype: str, threads: int) -> int:
    """Elements of a row that each of its threads keeps in registers; 0 if they are too many."""
    lanes = row_lanes(columns, dtype)
    elements = -(-columns // (lanes * threads)) * lanes
    most = WARP_BYTES // WARP if threads <= WARP else HELD_BYTES
    return elements if elements * DTYPE_BYTES[dtype] <= most else 0


def row_launch(body: Body, name: str, arch: Arch, room: str = "", held: int = 0) -> Stage:
    """A launch over the rows of the first operand: `row_threads` threads take a row together.

    room: the dtype of a sum over the block, if there is one besides those of rows; held: elements
    that each keeps.
    """
    type = body.node.inputs[0].type
    rows, columns = rows_and_columns(type)
    threads = row_threads(columns, type.dtype)
    options = {"row_threads": threads} | ({"held": held} if held else {})
    if threads > WARP:
        grid = blocks_for(rows, 1, arch)
        return launch(name, grid, threads, room_for_warps(threads, type.dtype), **options)
    most = MOST_THREADS if room and rows * threads <= LONE_THREADS else ROW_BLOCK
    block = min(most, ceil_to(rows * threads, WARP))
    grid = 1 if most == MOST_THREADS else blocks_for(rows * threads, block, arch)
    return launch(name, grid, block, room_for_warps(block, room) if room else 0, **options)


def room_for_warps(block: int, dtype: str) -> int:
    """Bytes for an element of each warp of a block."""
    return block // WARP * DTYPE_BYTES[dtype]


def row_choice(body: Body, arch: Arch) -> Choice:
    """One launch over rows."""
    return Choice((row_launch(body, body.template, arch),))


def held_row_choice(body: Body, arch: Arch) -> Choice:
    """One launch over rows that are looked at twice."""
    type = body.node.inputs[0].type
    _, columns = rows_and_columns(type)
    held = held_elements(columns, type.dtype, row_threads(columns, type.dtype))
    return Choice((row_launch(body, body.template, arch, held=held),))


def row_loss_choice(body: Body, arch: Arch) -> Choice:
    """The sum over a block's rows into the workspace, then their sum by one block."""
    return row_total_choice(body, arch, body.node.inputs[0].type.dtype)


def top_k_choice(body: Body, arch: Arch) -> Choice:
    """The same for a count of rows, which doubles hold exactly."""
    return row_total_choice(body, arch, "f64")


def row_total_choice(body: Body, arch: Arch, dtype: str) -> Choice:
    """A launch over rows and one that adds up what its blocks did; one block does both."""
    rows = row_launch(body, "rows", arch, dtype)
    grid = dict(rows.options)["grid"]
    if grid == 1:
        return Choice((replace(rows, name=body.template),))
    total = launch("total", 1, BLOCK, room_for_warps(BLOCK, dtype))
    return Choice((rows, total), grid * DTYPE_BYTES[dtype])


def sum_choice(body: Body, arch: Arch) -> Choice:
    """One block for few elements; else a block for each chunk, and then the sum of their sums."""
    type = body.node.inputs[0].type
    room = room_for_warps(BLOCK, type.dtype)
    if type.size <= SUM_ALONE:
        return Choice((launch(body.template, 1, BLOCK, room),))
    fewest = -(-type.size // (BLOCKS_EACH * arch.multiprocessors))
    chunk = max(SUM_CHUNK, ceil_to(fewest, BLOCK * ACCESS_BYTES // DTYPE_BYTES[type.dtype]))
    chunks = -(-type.size // chunk)
    stages = launch("chunks", chunks, BLOCK, room, size=chunk), launch("total", 1, BLOCK, room)
    return Choice(stages, chunks * DTYPE_BYTES[type.dtype])


def column_choice(body: Body, arch: Arch) -> Choice:
    """A block for each strip of columns; for many rows also for chunks of them, whose sums are then
    added.
    """
    assert body.anchor is not None
    type = body.anchor.inputs[0].type
    rows, columns = rows_and_columns(type)
    strips = -(-columns // WARP)
    wanted = max(1, COLUMN_BLOCKS_EACH * arch.multiprocessors // strips)
    chunk = min(max(COLUMN_CHUNK_ROWS, -(-rows // wanted)), COLUMN_MOST_ROWS)
    chunks = -(-rows // chunk)
    room = BLOCK * DTYPE_BYTES[type.dtype]
    if chunks == 1 or rows <= COLUMN_ROWS:
        return Choice((launch("column", strips, BLOCK, room),))
    stages = (
        launch("chunks", strips * chunks, BLOCK, room, rows=chunk),
        launch("total", strips, BLOCK, room),
    )
    return Choice(stages, chunks * columns * DTYPE_BYTES[type.dtype])


RULES: dict[str, Callable[[Body, Arch], Choice]] = {
    "gemm": cuda_gemm_choice,
    "softmax": held_row_choice,
    "softmax_grad": held_row_choice,
    "row_sum": row_choice,
    "column": column_choice,
    "sum": sum_choice,
    "mse": sum_choice,
    "adam": adam_choice,
    "concat": moving_choice,
    "columns": moving_choice,
    "pad_columns": moving_choice,
    "take": take_choice,
    "shuffle": shuffle_choice,
    "cross_entropy": row_loss_choice,
    "cross_entropy_grad": row_choice,
    "cross_entropy_grad_grad": row_loss_choice,
    "soft_cross_entropy": row_loss_choice,
    "soft_cross_entropy_grad": row_choice,
    "top_k": top_k_choice,
}
