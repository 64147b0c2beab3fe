"""The kernels that mutants are made of: every template, each in shapes where guards and strides
count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

import cuda_convolutions as convolutions
from cuda_sweep import ONE, TARGET
from fused_cases import chain, joined, linear_then, slope_and_sum, softmax_grad_of
from limits import Limits, limited
from mutant_kernels import Subject
from samples import kinds, main_shape, stretched
from sweep import Case, sample_case

from noeira.codegen.cuda import anchor, row_total, total
from noeira.codegen.cuda import row as by_row
from noeira.codegen.cuda.target import CudaTarget
from noeira.codegen.kernels.column import cuda as column
from noeira.codegen.kernels.gemm.cuda_cut import CudaGemmCut, gemm_launches
from noeira.codegen.kernels.gemm.product import Partition, gemm_of
from noeira.codegen.kernels.shuffle import cuda as shuffle
from noeira.codegen.scratch import bytes_of
from noeira.ir.body import body_of
from noeira.ir.layouts import Range
from noeira.ir.op import op
from noeira.ir.ops.flat_update import FlatUpdate
from noeira.ir.plan import Choice
from noeira.ir.samples import Draw, Sample
from noeira.ir.types import TensorType

OWN = (("lr_factor", 0.5), ("weight_decay", 0.3))
# Ranges that begin anywhere; so many that they are searched for, and each
# with a number of its own; two for whole accesses.
FEW = (Range(1, 5), Range(9, 131, OWN), Range(301, 329))
MANY = tuple(Range(n, n + 7, (("lr_factor", n / 512),)) for n in range(20, 520, 14))
WHOLE = (Range(0, 64), Range(64, 320, OWN), Range(324, 331))
# Limits under which small shapes are taken in several stages and turns, by three blocks or more.
FLAT: Limits = {
    anchor: {"BLOCK": 32, "BLOCKS_EACH": 3},
    shuffle: {"BLOCK": 32, "PIECE_BLOCK": 8, "PIECE": 64, "DISTANCES": 3},
}
SUMS: Limits = {anchor: {"BLOCK": 32}, total: {"SUM_ALONE": 400, "SUM_CHUNK": 256}}
COLUMNS: Limits = {
    anchor: {"BLOCK": 64},
    column: {"COLUMN_ROWS": 16, "COLUMN_CHUNK_ROWS": 12, "COLUMN_BLOCKS_EACH": 16},
}


def normal(*shape: int, dtype: str = "f32") -> Draw:
    """An operand of normal numbers, or of small whole ones."""
    type = TensorType(dtype, shape)
    return Draw(type) if type.is_float else Draw(type, "index", 100)


def updating(name: str, size: int, **attrs: object) -> Case:
    """An optimizer over so many elements."""
    rule = op(name)
    assert isinstance(rule, FlatUpdate)
    return sample_case(rule, rule.sample(size, **attrs))


def taking(samples: int, rows: int, *shape: int, dtype: str = "f32") -> Sample:
    """Operands of `take`."""
    order = Draw(TensorType("i32", (samples,)), "index", samples)
    cursor = Draw(TensorType("i64", ()), "index", 5 * samples)
    return Sample((normal(samples, *shape, dtype=dtype), order, cursor), {"rows": rows}, ())


def row_case(name: str, rows: int, columns: int, extra: bool) -> Case:
    """An op on rows; `extra` adds smoothing and the optional operand."""
    rule = op(name)
    if name == "sum":
        return sample_case(rule, Sample((normal(rows, columns),), {"axes": (1,), "scale": 0.5}))
    for sample in kinds(rule, 2):
        if bool(sample.attrs.get("smoothing")) == (extra and "smoothing" in sample.attrs):
            old_rows, old_columns = main_shape(rule, sample)
            made = stretched(rule, sample, {old_rows: rows, old_columns: columns})
            if made is not None:
                attrs = made.attrs | ({"k": 3} if name == "top_k" else {})
                return sample_case(rule, replace(made, attrs=attrs))
    raise AssertionError(f"{name} has no sample of {rows} rows of {columns}")


def subjects() -> tuple[Subject, ...]:
    """All kernels."""
    return (
        *chosen(flat_cases(), ONE, FLAT),
        *chosen(sum_cases(), TARGET, SUMS),
        *chosen(column_cases(), ONE, COLUMNS),
        *chosen(control_cases(), TARGET, {}),
        *row_subjects(),
        *gemm_subjects(),
        *convolution_subjects(),
    )


def flat_cases() -> Iterator[Case]:
    """Kernels with a thread for some elements: element-wise ones, copies, optimizers, shuffle."""
    yield sample_case(op("add"), Sample((normal(39, 10), normal(10))))
    yield sample_case(op("add"), Sample((normal(25, 20), normal(20))))
    yield sample_case(op("add"), Sample((normal(8, 1, 19), normal(1, 3, 19))))
    yield sample_case(op("add"), Sample((normal(7, 5, 12), normal(5, 1))))
    yield sample_case(op("add"), Sample((normal(8, 5, 9), normal(5, 1))))
    yield joined("chain", chain)[0]
    yield sample_case(op("concat"), Sample((normal(5, 4), normal(5, 7), normal(5, 8))))
    yield sample_case(op("slice"), Sample((normal(13, 20),), {"starts": (4,), "lengths": (9,)}))
    yield sample_case(op("pad"), Sample((normal(13, 7),), {"starts": (4,), "lengths": (15,)}))
    yield sample_case(op("take"), taking(20, 15, 3))
    yield sample_case(op("take"), taking(20, 20, 52, dtype="u8"))
    for ranges in (FEW, WHOLE):
        yield updating("adam", 331, weight_decay=0.1, ranges=ranges)
    yield updating("sgd", 331)
    momentum = {"momentum": 0.9, "dampening": 0.2, "weight_decay": 0.1}
    yield updating("sgd", 538, ranges=MANY, **momentum)
    draws = next(iter(op("shuffle").samples())).operands
    yield sample_case(op("shuffle"), Sample(draws, {"samples": 200}))


def sum_cases() -> Iterator[Case]:
    """Sums over all elements."""
    yield sample_case(op("sum"), Sample((normal(9003),), {"scale": 0.5}))
    yield sample_case(op("sum"), Sample((normal(399),)))
    yield sample_case(op("mse"), Sample((normal(9001, dtype="f64"), normal(9001, dtype="f64"))))


def column_cases() -> Iterator[Case]:
    """Sums over columns, of one strip and several, in one stage and two."""
    yield sample_case(op("sum"), Sample((normal(41, 33),), {"axes": (0,), "scale": 0.5}))
    yield sample_case(op("sum"), Sample((normal(40, 7),), {"axes": (0,)}))
    yield sample_case(op("sum"), Sample((normal(10, 37),), {"axes": (0,)}))
    yield sample_case(op("sum"), Sample((normal(3, 5, 7),), {"axes": (1,)}))
    yield sample_case(op("sum"), Sample((normal(3, 43, 37),), {"axes": (1,), "scale": 0.5}))
    yield slope_and_sum("relu.d0", (30, 33), True)[0]


def control_cases() -> Iterator[Case]:
    """Kernels of one thread."""
    for name in ("finite", "count", "accumulate", "record_bad"):
        yield sample_case(op(name), next(iter(op(name).samples())))


def chosen(
    cases: Iterable[Case],
    target: CudaTarget,
    limits: Limits,
    own: Callable[[Case], tuple[str, ...]] = lambda case: (),
) -> Iterator[Subject]:
    """The kernels that a target chooses under these limits."""
    with limited(limits):
        found = [Subject(case, target.choose(case.node), target, own(case)) for case in cases]
    yield from found


# How rows are taken: as chosen, by three blocks in turns, by blocks of more than a warp.
LIMITS: dict[str, Limits] = {
    "chosen": {},
    "in turns": {
        anchor: {"BLOCKS_EACH": 34, "BLOCK": 32},
        by_row: {"ROW_BLOCK": 64},
        row_total: {"LONE_THREADS": 0},
    },
    "blocks": {
        anchor: {"BLOCKS_EACH": 3},
        by_row: {"WARP_BYTES": 16, "HELD_BYTES": 2, "ROW_BLOCK": 64, "MOST_THREADS": 64},
    },
}
ROWS: dict[str, tuple[tuple[str, int, int, bool], ...]] = {
    "chosen": (
        *(("softmax", 9, 50, False), ("softmax", 9, 200, False), ("softmax", 2, 1031, False)),
        *(("softmax_grad", 9, 50, False), ("softmax_grad", 9, 200, False)),
        *(("sum", 9, 10, False), ("sum", 5, 257, False)),
        *(("cross_entropy", 13, 10, True), ("cross_entropy_grad", 33, 16, True)),
    ),
    "in turns": (
        *(("cross_entropy", 1100, 8, False), ("soft_cross_entropy", 275, 7, True)),
        *(("cross_entropy_grad_grad", 1100, 8, True), ("soft_cross_entropy_grad", 275, 7, True)),
        ("top_k", 75, 33, False),
    ),
    "blocks": (
        *(("softmax", 4, 521, False), ("softmax_grad", 4, 261, False)),
        *(("cross_entropy", 5, 524, True), ("sum", 4, 264, False)),
        *(("cross_entropy_grad", 4, 264, False), ("top_k", 4, 261, False)),
    ),
}
REDUCTIONS = ("warp_sum", "warp_max", "block_sum", "block_max")


def row_subjects() -> Iterator[Subject]:
    """Kernels of rows; one softmax has the sums over warps and blocks as its own."""

    def own(case: Case) -> tuple[str, ...]:
        reduces = case.label.startswith("softmax f32[4, 521]")
        return tuple(f"{name}_f32" for name in REDUCTIONS) if reduces else ()

    fused = {"chosen": (10, 200), "in turns": (7,), "blocks": (261,)}
    for kind, rows in ROWS.items():
        target = TARGET if kind == "chosen" else ONE
        cases = [row_case(*row) for row in rows]
        cases += [softmax_grad_of((9, columns), True)[0] for columns in fused[kind]]
        yield from chosen(cases, target, LIMITS[kind], own)


# m, n, k; transposes of A and B; tile: rows, columns, depth, rows and columns of a thread; splits.
GEMMS = (
    ((32, 64, 24), (False, False), (16, 32, 8, 2, 4), 1),
    ((27, 35, 21), (False, False), (16, 32, 8, 2, 4), 1),
    ((27, 36, 23), (True, False), (16, 32, 8, 2, 4), 1),
    ((34, 36, 52), (False, True), (16, 32, 8, 2, 4), 3),
    ((7, 9, 8), (True, False), (8, 8, 8, 1, 1), 1),
)


def gemm_subjects() -> Iterator[Subject]:
    """Products with whole and ragged tiles, one and several, in pieces of k, with a tail."""
    for (m, n, k), (turned_a, turned_b), tile, splits in GEMMS:
        a, b = (k, m) if turned_a else (m, k), (n, k) if turned_b else (k, n)
        attrs = {"transpose_a": turned_a, "transpose_b": turned_b}
        yield tiled(
            sample_case(op("matmul"), Sample((normal(*a), normal(*b)), attrs)), tile, splits
        )
    yield tiled(linear_then(op("relu"), False)[0], (16, 32, 8, 2, 4), 1)


def tiled(case: Case, tile: tuple[int, ...], splits: int) -> Subject:
    """A product in these tiles."""
    gemm = gemm_of(body_of(case.node))
    cut = CudaGemmCut(gemm, "f32", *tile, pieces=Partition(-(-gemm.k // tile[2]), splits))
    stages = gemm_launches(cut)
    options = ", ".join(f"{key} = {value}" for key, value in stages[0].options[2:-1])
    case = replace(case, label=f"{case.label} {{{options}}}")
    return Subject(case, Choice(stages, bytes_of(cut.scratch)))


# Several taps in a tile, padding on one side and both, phases of a stride that have not the same
# taps; groups, in whole accesses; groups of one channel.
IMAGES = convolutions.shape(2, 5, 7, (5, 3), (3, 2), (3, 3), stride=(2, 1), padding=(1, 1, 1, 0))
GROUPED = convolutions.shape(2, 8, 32, (3, 4), (2, 2), (2, 4), groups=2, padding=(0, 1, 0, 0))
DEPTHWISE = convolutions.shape(3, 5, 10, (6,), (3,), (3,), groups=5, stride=(2,), padding=(1, 0))


def convolution_subjects() -> Iterator[Subject]:
    """Convolutions and their adjoints in tiles, whose operands are gathered, and directly."""
    forward, adjoint, _ = IMAGES.cases()
    *_, weight = GROUPED.cases()
    _, channel, channel_weight = DEPTHWISE.cases()
    yield Subject(*convolutions.tiled(forward, (16, 8, 16, 2, 2)))
    yield Subject(*convolutions.tiled(adjoint, (16, 8, 16, 2, 2)))
    yield Subject(*convolutions.tiled(weight, (16, 16, 8, 2, 2), 2))
    yield Subject(*convolutions.piecewise(channel, 1))
    yield Subject(*convolutions.piecewise(channel_weight, 2))
