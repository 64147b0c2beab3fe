"""How CUDA takes rows: some threads of a warp together, or a block for a longer row."""

from __future__ import annotations

from dataclasses import dataclass

from noeira.codegen.anchor import anchor_of, rows_dtype, rows_operand
from noeira.codegen.cuda import anchor as cuda
from noeira.codegen.cuda.arch import WARP, Arch, ceil_to
from noeira.codegen.cut import option
from noeira.codegen.rows import pieces_of, rows_and_columns
from noeira.errors import VerifyError
from noeira.ir.body import Body
from noeira.ir.types import DTYPE_BYTES

# Rows up to so many bytes have at most a warp each, longer ones a block.
WARP_BYTES = 4096
ROW_BLOCK = 128
MOST_THREADS = 1024
REGISTER_BYTES = 4
# Bytes of a longer row that a thread keeps in registers: a block of 1024 has 64 registers for each.
HELD_BYTES = 64


@dataclass(frozen=True)
class RowCut(cuda.LaunchCut):
    """row_threads: threads that take a row together; held: elements of a row that each of them
    keeps in registers between two looks at it, 0 for none.
    """

    row_threads: int = option()
    held: int = option(0)


class Row(cuda.CudaAnchor):
    """One launch over rows, which are kept in registers if the op says that its kernel looks at
    them twice.
    """

    Cut = RowCut

    def rule(self, body: Body, machine: Arch) -> RowCut:
        type, dtype = rows_operand(body).type, rows_dtype(body)
        rows, columns = rows_and_columns(type)
        threads = row_threads(columns, dtype, machine)
        twice = anchor_of(body).op.looks_twice
        held = held_elements(columns, dtype, threads, machine) if twice else 0
        if threads > WARP:
            return RowCut(cuda.blocks_for(rows, 1, machine), threads, threads, held)
        block = min(ROW_BLOCK, ceil_to(rows * threads, WARP))
        return RowCut(cuda.blocks_for(rows * threads, block, machine), block, threads, held)

    def shared(self, body: Body, cut: RowCut) -> int:
        dtype = rows_dtype(body)
        return cuda.room_for_warps(cut.block, dtype) if cut.row_threads > WARP else 0

    def check(self, body: Body, cut: RowCut, machine: Arch) -> None:
        threads = cut.row_threads
        if cut.block % WARP:
            raise VerifyError(f"{body.stem}: block must be a multiple of {WARP}, not {cut.block}")
        if threads != cut.block and (threads > WARP or threads & (threads - 1)):
            raise VerifyError(
                f"{body.stem}: row_threads must be a power of two up to {WARP}, or the whole block"
            )
        if cut.held:
            check_held(body, cut, machine)


def check_held(body: Body, cut: RowCut, machine: Arch) -> None:
    """Raises VerifyError unless the threads of a row hold whole accesses, all of the row together,
    in no more registers than they have, for another look.
    """
    if not anchor_of(body).op.looks_twice:
        raise VerifyError(f"{body.stem}: held must be 0: its kernel looks at rows once")
    columns, dtype = rows_and_columns(rows_operand(body).type)[1], rows_dtype(body)
    lanes = row_lanes(columns, dtype, machine)
    least = pieces_of(columns, cut.row_threads * lanes) * lanes
    if cut.held % lanes or cut.held < least:
        raise VerifyError(
            f"{body.stem}: held must be a multiple of {lanes} of at least {least} for rows of "
            f"{columns} elements and row_threads = {cut.row_threads}"
        )
    registers = cut.held * DTYPE_BYTES[dtype] // REGISTER_BYTES
    if registers > machine.thread_registers:
        raise VerifyError(
            f"{body.stem}: held = {cut.held:,} needs {registers:,} registers, a thread of "
            f"{machine.name} has at most {machine.thread_registers}"
        )


def row_threads(columns: int, dtype: str, machine: Arch) -> int:
    """Threads that take a row together: a power of two up to a warp, one for each access if there
    are so few; a block for a longer row, large enough to keep it in registers where one can.
    """
    size = DTYPE_BYTES[dtype]
    if columns * size <= WARP_BYTES:
        return min(WARP, power_of_two(columns // row_lanes(columns, dtype, machine)))
    return min(max(ROW_BLOCK, power_of_two(pieces_of(columns * size, HELD_BYTES))), MOST_THREADS)


def row_lanes(columns: int, dtype: str, machine: Arch) -> int:
    """Elements of an access that whole rows consist of."""
    lanes = machine.lanes(dtype)
    return 1 if columns % lanes else lanes


def power_of_two(number: int) -> int:
    """The next power of two."""
    return 1 << (number - 1).bit_length()


def held_elements(columns: int, dtype: str, threads: int, machine: Arch) -> int:
    """Elements of a row that each of its threads keeps in registers; 0 if they are too many."""
    lanes = row_lanes(columns, dtype, machine)
    elements = pieces_of(columns, lanes * threads) * lanes
    most = WARP_BYTES // WARP if threads <= WARP else HELD_BYTES
    return elements if elements * DTYPE_BYTES[dtype] <= most else 0
