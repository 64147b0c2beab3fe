"""The kernels that mutants are made of: every template, each in shapes where guards and strides
count, and what they are run on.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import test_cuda_rows
from cuda_sweep import TARGET
from mutants import Mutant, mutants_of
from sweep import Case, Limits, limited, sample_case
from test_cuda_ops import SMALL_LIMITS, SMALL_TARGET, normal, optimizer_sample, taking
from test_ops import chain, joined, linear_then, slope_and_sum

from noeira.codegen.cuda import anchor, row_total, total
from noeira.codegen.cuda import row as by_row
from noeira.codegen.cuda.prelude import device_prelude
from noeira.codegen.cuda.target import CudaTarget
from noeira.codegen.kernel import kernel_text
from noeira.codegen.kernels.column import cuda as column
from noeira.codegen.kernels.gemm.cuda import gemm_launches
from noeira.codegen.kernels.gemm.cuda_tiles import CudaGemmCut
from noeira.codegen.kernels.gemm.product import Partition, gemm_of
from noeira.ir.body import body_of
from noeira.ir.op import op
from noeira.ir.plan import Call, Choice
from noeira.ir.samples import Sample
from noeira.ir.types import Range

FEW, MANY = (
    (Range(1, 5), Range(9, 131), Range(301, 329)),
    tuple(Range(n, n + 7) for n in range(40, 250, 20)),
)
# Limits under which small shapes are taken in several stages and turns, by three blocks or more.
FLAT: Limits = {**SMALL_LIMITS, anchor: {"BLOCK": 32, "BLOCKS_EACH": 3}}
SUMS: Limits = {anchor: {"BLOCK": 32}, total: {"SUM_ALONE": 400, "SUM_CHUNK": 256}}
COLUMNS: Limits = {
    **SMALL_LIMITS,
    column: {**SMALL_LIMITS[column], "COLUMN_BLOCKS_EACH": 16},
}
# Logits that tests of special values take too.
WITH_SPECIAL = ("softmax", "cross_entropy", "soft_cross_entropy", "top_k")


@dataclass(frozen=True)
class Subject:
    """A kernel: the case that it serves, how it is launched, and functions of the prelude that
    become part of its text, so that they have mutants too.
    """

    case: Case
    choice: Choice
    target: CudaTarget = TARGET
    own: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """What mutants are listed under."""
        label = re.sub(r"\(start=(\d+), stop=(\d+)\)", r"(\1..\2)", self.case.label)
        return re.sub(r" \{('transpose_\w': \w+(, )?)*\}", "", label)

    @cached_property
    def text(self) -> str:
        """The kernel, named KERNEL."""
        text = kernel_text(Call(self.case.node, self.choice), self.target, "KERNEL")
        if not self.own:
            return text
        library = device_prelude(frozenset(self.own))
        functions = [
            re.search(rf"^INLINE \w+ {name}\(.*?^}}\n", library, re.DOTALL | re.MULTILINE)
            for name in self.own
        ]
        text = "\n".join([*(match[0] for match in functions if match), text])
        return re.sub(rf"\b({'|'.join(self.own)})\b", r"KERNEL_\1", text)

    @cached_property
    def mutants(self) -> list[Mutant]:
        return mutants_of(self.text)

    def trials(self) -> Iterator[list[np.ndarray]]:
        """Operands to run it on: drawn ones, and those that a branch is there for."""
        case, names = self.case, self.case.node.op.operands
        yield case.arrays()
        if "ok" in names:
            for first, ok in ((-1, False), (3, False), (0, False), (-1, True)):
                arrays = case.arrays(1)
                for name, array, draw in zip(names, arrays, case.draws, strict=False):
                    if name == "ok":
                        array[...] = ok
                    elif draw.kind == "counter":
                        array[...] = first if name == names[0] else 7
                yield arrays
        if "step" in names:
            arrays = case.arrays(2)
            arrays[names.index("step")][...] = 0
            yield arrays
        if case.node.op.name == "take":
            source, order, cursor = case.arrays(3)
            # In the middle of what is taken the order begins again.
            cursor[...] = 2 * len(order) - case.node.outputs[0].type.shape[0] // 2
            yield [source, order, cursor]
        if case.node.op.name == "cross_entropy_grad_grad":
            arrays = case.arrays(3)
            arrays[names.index("d_loss")] *= 1000
            yield arrays
        if case.node.op.name in WITH_SPECIAL:
            yield from special_logits(case)
        if case.node.op.name == "top_k":
            yield from boundaries(case)


def special_logits(case: Case) -> Iterator[list[np.ndarray]]:
    """Infinities and NaNs, each in another row; then logits that grow, fall, or are often equal;
    then one large one in each row.
    """
    z, *others = case.arrays(4)
    for row, value in enumerate((np.nan, np.inf, -np.inf)):
        z[4 * row % len(z), row] = value
    if len(z) > 9:
        z[9] = -np.inf
    yield [z, *others]
    z, *others = case.arrays(5)
    z[::3], z[1::3], z[2::3] = np.sort(8 * z[::3]), -np.sort(-8 * z[1::3]), np.round(z[2::3])
    yield [z, *others]
    for number in range(3):
        z, *others = case.arrays(6 + number)
        z += 20 * number
        for row in range(len(z)):
            # exp of it is infinite, so what is relative to another element cannot be right.
            last = z.shape[1] - 1
            z[row, (37 * (row + 5 * number) + 5) % last if number < 2 else last - row % 4] = 200
        yield [z, *others]


def boundaries(case: Case) -> Iterator[list[np.ndarray]]:
    """Classes that are just among the k greatest, or just not; also of equal logits."""
    k = vars(case.node.attrs)["k"]
    for number in range(6):
        z, classes = case.arrays(9 + number)
        # Where rows have ends that are taken apart, those must count too.
        z[:, [0, 1, -3, -2, -1]] += 4 * (number > 2)
        z = np.minimum(np.round(z), 4) if number % 2 else z
        order = np.argsort(-z, axis=1, kind="stable")
        for row in range(len(z)):
            classes[row] = order[row, k - 1 + (row + number // 2) % 2]
        yield [z, classes]


def subjects() -> tuple[Subject, ...]:
    """All kernels."""
    return (
        *chosen(flat_cases(), SMALL_TARGET, FLAT),
        *chosen(sum_cases(), TARGET, SUMS),
        *chosen(column_cases(), SMALL_TARGET, COLUMNS),
        *chosen(control_cases(), TARGET, {}),
        *row_subjects(),
        *gemm_subjects(),
    )


def flat_cases() -> Iterator[Case]:
    """Kernels with a thread for some elements: element-wise ones, copies, optimizers, shuffle."""
    yield sample_case(op("add"), Sample((normal(39, 10), normal(10))))
    yield sample_case(op("add"), Sample((normal(25, 20), normal(20))))
    yield joined("chain", chain)[0]
    for size, times in ((5, 63), (8, 73), (1, 315)):
        yield sample_case(
            op("broadcast"), Sample((normal(size),), {"shape": (times, size), "scale": 2.0})
        )
    yield sample_case(op("concat"), Sample((normal(5, 4), normal(5, 7), normal(5, 8))))
    yield sample_case(op("columns"), Sample((normal(13, 20),), {"start": 4, "width": 9}))
    yield sample_case(op("pad_columns"), Sample((normal(13, 7),), {"start": 4, "width": 15}))
    yield sample_case(op("take"), taking(20, 15, 3))
    yield sample_case(op("take"), taking(20, 20, 52, dtype="u8"))
    yield sample_case(op("adam"), optimizer_sample("adam", 331, 2, weight_decay=0.1, decay=FEW))
    yield sample_case(op("sgd"), optimizer_sample("sgd", 331, 0))
    momentum = {"momentum": 0.9, "dampening": 0.2, "weight_decay": 0.1}
    yield sample_case(op("sgd"), optimizer_sample("sgd", 538, 1, decay=MANY, **momentum))
    draws = next(iter(op("shuffle").samples())).operands
    yield sample_case(op("shuffle"), Sample(draws, {"samples": 200}))


def sum_cases() -> Iterator[Case]:
    """Sums over all elements."""
    yield sample_case(op("sum"), Sample((normal(9003),), {"scale": 0.5}))
    yield sample_case(op("sum"), Sample((normal(399),)))
    yield sample_case(op("mse"), Sample((normal(9001, dtype="f64"), normal(9001, dtype="f64"))))


def column_cases() -> Iterator[Case]:
    """Sums over columns, of one strip and several, in one stage and two."""
    yield sample_case(op("column_sum"), Sample((normal(41, 33),), {"scale": 0.5}))
    yield sample_case(op("column_sum"), Sample((normal(40, 7),)))
    yield sample_case(op("column_sum"), Sample((normal(10, 37),)))
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
        row_total: {"LONE_THREADS": 0},
        by_row: {"ROW_BLOCK": 64},
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
        *(("row_sum", 9, 10, False), ("row_sum", 5, 257, False)),
        *(("cross_entropy", 13, 10, True), ("cross_entropy_grad", 33, 16, True)),
    ),
    "in turns": (
        *(("cross_entropy", 1100, 8, False), ("soft_cross_entropy", 275, 7, True)),
        *(("cross_entropy_grad_grad", 1100, 8, True), ("soft_cross_entropy_grad", 275, 7, True)),
        *(("top_k", 75, 33, False), ("row_broadcast", 77, 5, False)),
    ),
    "blocks": (
        *(("softmax", 4, 521, False), ("softmax_grad", 4, 261, False)),
        *(("cross_entropy", 5, 524, True), ("row_sum", 4, 264, False)),
        *(("cross_entropy_grad", 4, 264, False), ("top_k", 4, 261, False)),
    ),
}
REDUCTIONS = ("warp_sum", "warp_max", "block_sum", "block_max")


def row_subjects() -> Iterator[Subject]:
    """Kernels of rows; one softmax has the sums over warps and blocks as its own."""

    def own(case: Case) -> tuple[str, ...]:
        reduces = case.label.startswith("softmax f32[4, 521]")
        return tuple(f"{name}_f32" for name in REDUCTIONS) if reduces else ()

    for kind, rows in ROWS.items():
        target = TARGET if kind == "chosen" else SMALL_TARGET
        cases = [test_cuda_rows.case_of(*row) for row in rows]
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
    return Subject(case, Choice(stages, cut.workspace))
