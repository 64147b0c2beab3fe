"""From a node to its GEMM in CUDA, and between a GEMM's tiles and the stages of a plan."""

from __future__ import annotations

from dataclasses import replace

from noeira.codegen.arch import WARP, Arch
from noeira.codegen.cuda_gemm_rule import choose_cuda_gemm
from noeira.codegen.cuda_gemm_tile import TOTAL_BLOCK, CudaGemmChoice
from noeira.codegen.gemm import Cut, Gemm
from noeira.codegen.gemm_stages import gemm_of
from noeira.codegen.launches import launch, whole, within
from noeira.codegen.loops import Function
from noeira.codegen.lower import Body
from noeira.errors import VerifyError
from noeira.ir.plan import Choice, Stage

# The options of a tile, and the largest number that each may be.
TILE_OPTIONS = {"rows": 256, "columns": 256, "depth": 128, "thread_rows": 16, "thread_columns": 16}


def cuda_gemm_choice(body: Body, arch: Arch) -> Choice:
    """A GEMM by rule: its tiles as numbers, and its launches."""
    cut = choose_cuda_gemm(gemm_of(body), body.node.outputs[0].type.dtype, arch)
    return Choice(gemm_launches(cut), cut.workspace)


def gemm_launches(cut: CudaGemmChoice) -> tuple[Stage, ...]:
    """The stages of a GEMM that is cut so."""
    options = {name: getattr(cut, name) for name in TILE_OPTIONS}
    if cut.split:
        options["splits"] = cut.pieces.count
    stage = launch("gemm", cut.grid, cut.block, cut.shared, **options)
    if not cut.split:
        return (stage,)
    accesses = max(1, cut.gemm.m * cut.gemm.n // cut.lanes)
    return stage, launch("total", -(-accesses // TOTAL_BLOCK), TOTAL_BLOCK)


def cuda_gemm_cut(
    gemm: Gemm, stages: tuple[Stage, ...], symbol: str, dtype: str, arch: Arch
) -> CudaGemmChoice:
    """The cut that stages describe. Raises VerifyError if they do not fit the shape or the GPU."""
    if not stages or stages[0].name != "gemm":
        text = " ".join(map(str, stages))
        raise VerifyError(f"{text}: expected a stage gemm{{…}}")
    stage = stages[0]
    cut = described(gemm, stage, dtype)
    check_room(stage, cut, arch)
    expected = gemm_launches(cut)
    wanted = dict(expected[0].options)
    for name, value in stage.options:
        if name in ("grid", "block", "shared") and value != wanted.get(name):
            raise VerifyError(f"{stage}: {name} must be {wanted.get(name)} for these tiles")
    for name in ("grid", "block", "shared"):
        if name not in dict(stage.options):
            raise VerifyError(f"{stage}: {name} is missing, it must be {wanted[name]}")
    names = [one.name for one in stages]
    if names != [one.name for one in expected]:
        why = f"splits = {cut.pieces.count}"
        have = " and ".join(one.name for one in expected)
        raise VerifyError(f"{' '.join(map(str, stages))}: with {why} the stages are {have}")
    for total in stages[1:]:
        check_total(total)
    within(Choice(stages), arch)
    functions = [symbol] if len(stages) == 1 else [f"{symbol}_{one.name}" for one in stages]
    pairs = zip(functions, stages, strict=True)
    return replace(cut, functions=tuple(Function(name, dict(one.options)) for name, one in pairs))


def described(gemm: Gemm, stage: Stage, dtype: str) -> CudaGemmChoice:
    """The tiles that the options of a stage name. Raises VerifyError for an option that is missing,
    unknown, or not one of those it may be.
    """
    options = dict(stage.options)
    known = ("grid", "block", *TILE_OPTIONS, "splits", "shared")
    for name in options:
        if name not in known:
            raise VerifyError(f"gemm has no option {name}; it has {', '.join(known)}")

    for name, most in TILE_OPTIONS.items():
        value = options.get(name, 0)
        if not whole(value) or not 1 <= value <= most or value & (value - 1):
            raise VerifyError(f"{stage}: {name} must be a power of two from 1 to {most}")
    tile = {name: options[name] for name in TILE_OPTIONS}
    for name in ("rows", "columns"):
        if tile[f"thread_{name}"] > tile[name]:
            raise VerifyError(f"{stage}: thread_{name} must be at most {tile[name]}, as {name} is")
    tiles = -(-gemm.k // tile["depth"])
    splits = options.get("splits", 1)
    if not whole(splits) or not 1 <= splits <= tiles:
        what = f"k = {gemm.k} has {tiles} tiles of {tile['depth']} steps"
        raise VerifyError(f"{stage}: splits must be a whole number from 1 to {tiles}: {what}")
    cut = CudaGemmChoice(gemm, dtype, **tile, pieces=Cut(tiles, splits), functions=())
    if cut.block < WARP:
        raise VerifyError(
            f"{stage}: a block has rows / thread_rows · columns / thread_columns = {cut.block} "
            f"threads, at least {WARP} are needed: make rows or columns larger"
        )
    return cut


def check_room(stage: Stage, cut: CudaGemmChoice, arch: Arch) -> None:
    """Raises VerifyError if the GPU has too little for a block or a thread of these tiles."""
    if cut.block > arch.block_threads:
        raise VerifyError(
            f"{stage}: a block has rows / thread_rows · columns / thread_columns = {cut.block:,} "
            f"threads, {arch.name} has at most {arch.block_threads:,} in a block: make thread_rows "
            "or thread_columns larger"
        )
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


def check_total(stage: Stage) -> None:
    """Raises VerifyError if the stage `total` is no launch: any blocks of whole warps will do."""
    options = dict(stage.options)
    for name in options:
        if name not in ("grid", "block"):
            raise VerifyError(f"total has no option {name}; it has grid, block")
    for name, unit in (("grid", 1), ("block", WARP)):
        value = options.get(name, 0)
        if not whole(value) or value < 1 or value % unit:
            what = f"a multiple of {unit}" if unit > 1 else "a whole number of at least 1"
            raise VerifyError(f"{stage}: {name} must be {what}")
