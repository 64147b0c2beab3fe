"""How CUDA runs a matrix product."""

from __future__ import annotations

from noeira.codegen.cuda.anchor import CudaAnchor, launched
from noeira.codegen.cuda.arch import WARP, Arch
from noeira.codegen.cuda.launches import within
from noeira.codegen.cut import check_stages, read_cut, written
from noeira.codegen.kernels.gemm.cuda_rule import choose_cuda_gemm
from noeira.codegen.kernels.gemm.cuda_tiles import TOTAL_BLOCK, CudaGemmCut, TileOptions
from noeira.codegen.kernels.gemm.product import Gemm, Partition, dtype_of, gemm_of, gemm_tail
from noeira.codegen.rows import pieces_of
from noeira.codegen.view import Elementwise
from noeira.errors import VerifyError
from noeira.ir.body import Body
from noeira.ir.plan import Stage


class CudaGemm(CudaAnchor):
    """Tiles of C; sums of pieces of k are added in a second stage, which any launch does."""

    stem = "gemm"
    Cut = CudaGemmCut

    def rule(self, body: Body, machine: Arch) -> CudaGemmCut:
        return choose_cuda_gemm(gemm_of(body), dtype_of(body), machine)

    def stages(self, body: Body, cut: CudaGemmCut, machine: Arch) -> tuple[Stage, ...]:
        return gemm_launches(cut)

    def workspace(self, body: Body, cut: CudaGemmCut) -> int:
        return cut.workspace

    def view(self, body: Body, machine: Arch) -> Gemm:
        return gemm_of(body)

    def tail(self, body: Body) -> Elementwise:
        return gemm_tail(body)

    def read(self, body: Body, stages: tuple[Stage, ...], machine: Arch) -> CudaGemmCut:
        return cuda_gemm_cut(gemm_of(body), stages, dtype_of(body), machine)


def gemm_launches(cut: CudaGemmCut) -> tuple[Stage, ...]:
    """The stages of a product that is cut so."""
    launch = ("grid", cut.grid), ("block", cut.block)
    stage = launched("gemm", (*launch, *written(cut.options)), cut.shared)
    if not cut.split:
        return (stage,)
    accesses = max(1, cut.gemm.m * cut.gemm.n // cut.lanes)
    total = ("grid", pieces_of(accesses, TOTAL_BLOCK)), ("block", TOTAL_BLOCK)
    return stage, launched("total", total)


def cuda_gemm_cut(gemm: Gemm, stages: tuple[Stage, ...], dtype: str, arch: Arch) -> CudaGemmCut:
    """The cut that stages describe. Raises VerifyError if they do not fit the shape or the GPU."""
    options, stage = read_cut(TileOptions, stages), stages[0]
    for name in ("rows", "columns"):
        most = getattr(options, name)
        if getattr(options, f"thread_{name}") > most:
            raise VerifyError(f"{stage}: thread_{name} must be at most {most}, as {name} is")
    tiles = pieces_of(gemm.k, options.depth)
    if options.splits > tiles:
        what = f"k = {gemm.k} has {tiles} tiles of {options.depth} steps"
        raise VerifyError(f"{stage}: splits must be a whole number from 1 to {tiles}: {what}")
    tile = options.rows, options.columns, options.depth
    each = options.thread_rows, options.thread_columns
    cut = CudaGemmCut(gemm, dtype, *tile, *each, Partition(tiles, options.splits))
    check_threads(stage, cut, arch)
    check_room(stage, cut, arch)
    check_stages(TileOptions, stages, gemm_launches(cut))
    within(stages, arch)
    for total in stages[1:]:
        if dict(total.options)["block"] % WARP:
            raise VerifyError(f"{total}: block must be a multiple of {WARP}")
    return cut


def check_threads(stage: Stage, cut: CudaGemmCut, arch: Arch) -> None:
    """Raises VerifyError if a block of these tiles has too few or too many threads."""
    what = f"{stage}: a block has rows / thread_rows · columns / thread_columns ="
    if cut.block < WARP:
        raise VerifyError(
            f"{what} {cut.block} threads, at least {WARP} are needed: make rows or columns larger"
        )
    if cut.block > arch.block_threads:
        raise VerifyError(
            f"{what} {cut.block:,} threads, {arch.name} has at most {arch.block_threads:,} in a "
            "block: make thread_rows or thread_columns larger"
        )


def check_room(stage: Stage, cut: CudaGemmCut, arch: Arch) -> None:
    """Raises VerifyError if the GPU has too little for a block or a thread of these tiles."""
    if cut.registers > arch.thread_registers:
        raise VerifyError(
            f"{stage}: a thread with {cut.thread_rows} x {cut.thread_columns} sums needs about "
            f"{cut.registers} registers, {arch.name} has at most {arch.thread_registers}: make "
            "thread_rows, thread_columns or depth smaller"
        )
    if cut.registers * cut.block > arch.block_registers:
        raise VerifyError(
            f"{stage}: {cut.block} threads with about {cut.registers} registers each are more than "
            f"the {arch.block_registers:,} registers that {arch.name} has for a block: make rows "
            "or columns smaller"
        )
    if cut.shared > arch.most_shared:
        raise VerifyError(
            f"{stage}: a block needs {cut.shared:,} bytes of shared memory for its tiles, "
            f"{arch.name} has at most {arch.most_shared:,}: make depth, rows or columns smaller"
        )
