"""CUDA convolutions on the CPU: right for every shape and tile, and the same bits whatever the tile
or order.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from cuda_convolutions import Shape, piecewise, product_of, shape, tiled
from cuda_sweep import TARGET, WAYS, CudaKernels
from needs import needs_cxx
from sweep import TOLERANCE, Case, magnitudes, reference

from noeira.codegen.cuda.arch import ARCHS, arch
from noeira.codegen.cuda.prelude import device_prelude
from noeira.codegen.cuda.target import CudaTarget
from noeira.codegen.definitions import identifiers
from noeira.codegen.kernel import kernel_text
from noeira.codegen.kernels.convolution.cuda_phases import Phases
from noeira.codegen.kernels.gemm.cuda_cut import CudaGemmCut
from noeira.errors import VerifyError
from noeira.ir.builder import Builder
from noeira.ir.fused import close
from noeira.ir.graph import Node
from noeira.ir.plan import Call, Choice, Stage
from noeira.ir.samples import Draw
from noeira.ir.types import TensorType
from noeira.runtime.build.cache import open_cache
from noeira.runtime.cuda.compiler import Compiled, find_cuda_compiler

OPS = ("convolution", "transposed_convolution", "convolution_weight")
pytestmark = [needs_cxx, pytest.mark.ops(*OPS)]

# Channels in whole accesses and not, all steps of a tile of one tap and not; padding on both sides
# and one; phases with as many taps and not, one without any; images that tiles end in.
SHAPES = (
    shape(2, 8, 12, (5, 4), (3, 3), (5, 4), padding=(1, 1)),
    shape(1, 16, 8, (6, 5), (3, 2), (3, 3), stride=(2, 2), padding=(1, 1)),
    shape(3, 5, 7, (7,), (4,), (4,), stride=(2,), padding=(1, 2)),
    shape(2, 12, 4, (5, 5), (1, 1), (3, 3), stride=(2, 2)),
    shape(2, 8, 8, (4, 3), (1, 1), (4, 3), groups=2),
    shape(1, 12, 18, (6, 4), (2, 3), (4, 4), groups=3, dilation=(2, 1), padding=(0, 1)),
    shape(1, 4, 4, (3, 4, 5), (2, 1, 3), (2, 4, 3), stride=(1, 1, 2), padding=(0, 0, 1)),
    shape(1, 3, 4, (9, 8), (3, 2), (3, 3), stride=(2, 3), dilation=(2, 1)),
)
TILES = (
    ((16, 32, 8, 2, 4), 1),
    ((32, 16, 16, 4, 2), 1),
    ((8, 8, 8, 1, 1), 1),
    ((16, 16, 4, 2, 2), 3),
)
# Groups of one channel.
DEPTHWISE = (
    shape(2, 5, 5, (5, 4), (3, 3), (5, 4), groups=5, padding=(1, 1)),
    shape(1, 4, 12, (6, 5), (3, 2), (3, 3), groups=4, stride=(2, 2), padding=(1, 1)),
    shape(2, 3, 3, (9,), (3,), (5,), groups=3, dilation=(2,)),
)


def check(cases: Sequence[Case], choices: Sequence[Choice]) -> dict[str, np.ndarray]:
    """Results by label: near the reference, with no fault, the same bits in every order."""
    kernels, found = CudaKernels(tuple(cases), tuple(choices)), dict[str, np.ndarray]()
    plain, checked = kernels.built(), kernels.built(check=True)
    for one in cases:
        arrays = one.arrays()
        expected = reference(one.node, arrays)
        scales = magnitudes(one.node, arrays, expected)
        results = plain.run(one, arrays)
        for have, want, scale in zip(results, expected, scales, strict=True):
            limit = TOLERANCE[have.dtype.name.replace("float", "f")] * scale
            assert np.all(abs(have - want) <= limit), one.label
        others = [plain.run(one, arrays, way) for way in WAYS[1:3]]
        for other in (*others, checked.run(one, arrays)):
            assert [a.tobytes() for a in other] == [a.tobytes() for a in results], one.label
        found[one.label] = results[0]
    return found


@pytest.mark.parametrize("dtype", ["f32", pytest.param("f64", marks=pytest.mark.slow)])
def test_shapes_in_tiles(dtype: str) -> None:
    """Each shape in some of the tiles; where no sum is in pieces, the bits are those of any."""
    made, plain = list[tuple[Case, Choice]](), defaultdict[str, set[str]](set)
    for number, one in enumerate(SHAPES):
        for turn, case in enumerate(one.cases(dtype)):
            for more in range(2):
                tile, splits = TILES[(number + turn + more) % len(TILES)]
                made.append(tiled(case, tile, splits))
                if splits == 1:
                    plain[case.label].add(made[-1][0].label)
    found = check(*zip(*made, strict=True))
    for labels in plain.values():
        assert len({found[label].tobytes() for label in labels}) == 1, labels
    assert sum(len(labels) > 1 for labels in plain.values()) > 6


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_groups_of_one_channel(dtype: str) -> None:
    """By few threads in turns; sums over all images in pieces too."""
    made = list[tuple[Case, Choice]]()
    for one in DEPTHWISE:
        for case in one.cases(dtype):
            made.append(piecewise(case, 1))
            if case.node.op.name == "convolution_weight":
                made.append(piecewise(case, 4))
    check(*zip(*made, strict=True))


@pytest.mark.parametrize("channels", [2, 8, 24, 33])
def test_few_channels_of_many_places(channels: int) -> None:
    """Long sums in pieces, which one block adds or several."""
    padded = {"groups": channels, "padding": (1, 1)}
    one = shape(8, channels, channels, (32, 32), (3, 3), (32, 32), **padded)
    (node,) = (case.node for case in one.cases() if case.node.op.name == "convolution_weight")
    choice = TARGET.choose(node)
    assert [stage.name for stage in choice.stages] == ["convolution_weight", "total"]
    assert kernel_text(Call(node, choice), TARGET, "k")


def fused(one: Shape, name: str, tail: str) -> Case:
    """A convolution, and what follows it in its kernel."""
    (node,) = (case.node for case in one.cases() if case.node.op.name == name)
    builder = Builder("fused")
    values = [builder.input(f"v{i}", v.type) for i, v in enumerate(node.inputs)]
    attrs = {key: value for key, value in vars(node.attrs).items() if value}
    y = builder.emit(name, *values, **attrs)
    if tail == "both":
        scale = builder.input("scale", TensorType("f32", y.type.shape[-1:]))
        other = builder.input("other", y.type)
        outputs = [
            y,
            builder.emit("gelu", builder.emit("add", builder.emit("multiply", y, scale), other)),
        ]
    else:
        outputs = [builder.emit(tail, y)]
    made = close(tuple(builder.nodes), {v.name for v in outputs}, builder.nodes[0].origin)
    return Case(f"{name} {tail} {one}", made, tuple(Draw(v.type) for v in made.inputs))


def test_what_follows() -> None:
    """A tail at the store of whole accesses, of elements, of phases, of pieces and of groups."""
    cases = [
        fused(SHAPES[0], "convolution", "both"),
        fused(SHAPES[1], "transposed_convolution", "both"),
        fused(SHAPES[2], "transposed_convolution", "relu"),
        fused(SHAPES[5], "convolution", "both"),
        fused(SHAPES[0], "convolution_weight", "both"),
        fused(DEPTHWISE[1], "convolution", "both"),
    ]
    choices = [TARGET.choose(case.node) for case in cases]
    pairs = [tiled(cases[0], *TILES[0]), tiled(cases[1], *TILES[1]), tiled(cases[4], *TILES[3])]
    extra = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    check([*cases, *extra[0]], [*choices, *extra[1]])


NUMBERS = (range(1, 8), range(1, 5), range(1, 4), range(3), range(1, 4))


def test_phases_have_every_tap_that_meets_a_pixel() -> None:
    for size, kernel, stride, before, dilation in product(*NUMBERS):
        padded = size + before + 2
        if dilation * (kernel - 1) + 1 > padded:
            continue
        out = (padded - dilation * (kernel - 1) - 1) // stride + 1
        axis = Phases("width", size, out, kernel, stride, before, dilation)
        found = set()
        for phase, (first, count, base) in enumerate(
            zip(axis.firsts, axis.counts, axis.bases, strict=True)
        ):
            for pixel, number in product(range(axis.pixels), range(count)):
                place, at = base + pixel - axis.reach * number, phase + stride * pixel
                assert place >= 0 or axis.leaves[0]
                assert place < out or axis.leaves[1]
                if 0 <= place < out and at < size:
                    found.add((at, first + axis.step * number, place))
        expected = {
            (stride * place + dilation * tap - before, tap, place)
            for place, tap in product(range(out), range(kernel))
            if 0 <= stride * place + dilation * tap - before < size
        }
        assert found == expected, axis


EDITED = {
    "columns must be a power of two from 1 to 256": {"columns": 48},
    "grid must be 3 here": {"grid": 2},
    "splits must be a whole number from 1 to 9: k = 72 has 9 tiles of 8 steps": {"splits": 10},
    "shared must be 2304 here": {"shared": 1024},
}


@pytest.mark.parametrize("message", EDITED)
def test_edited_options_are_checked(message: str) -> None:
    case, choice = tiled(next(SHAPES[0].cases()), (16, 16, 8, 2, 2))
    options = dict(choice.stages[0].options)
    edited = Stage("convolution", tuple((options | EDITED[message]).items()))
    with pytest.raises(VerifyError) as caught:
        TARGET.cuts(case.node, Choice((edited,)))
    assert message in str(caught.value)


def test_pieces_of_one_channel_are_checked() -> None:
    *_, case = DEPTHWISE[2].cases()
    stages = Stage("convolution_weight", (("grid", 1), ("block", 32), ("splits", 11)))
    total = Stage("total", (("grid", 1), ("block", 32)))
    with pytest.raises(VerifyError, match="splits must be at most 10, not 11"):
        TARGET.cuts(case.node, Choice((stages, total), 4096))


def square(channels: int, filters: int, size: int, kernel: int, stride: int) -> Shape:
    """A convolution of a residual network, of a batch of 32."""
    out, padding = (-(-size // stride),) * 2, (kernel // 2,) * 2
    kernels, strides = (kernel,) * 2, (stride,) * 2
    attrs = {"stride": strides, "padding": padding}
    return shape(32, channels, filters, (size,) * 2, kernels, out, **attrs)


RESIDUAL = (
    *(square(3, 64, 32, 3, 1), square(64, 64, 32, 3, 1), square(64, 128, 32, 3, 2)),
    *(square(64, 128, 32, 1, 2), square(128, 256, 16, 3, 2), square(512, 512, 4, 3, 1)),
)


@pytest.mark.parametrize("name", ARCHS)
def test_the_rule_fits_every_gpu(name: str) -> None:
    target = CudaTarget(arch(name))
    for one in (*SHAPES, *DEPTHWISE, *RESIDUAL):
        for dtype in ("f32", "f64"):
            for case in one.cases(dtype):
                choice = target.choose(case.node)
                (cut,) = target.cuts(case.node, choice)
                if isinstance(cut, CudaGemmCut):
                    assert (
                        cut.layers
                        == product_of(case).phase_count * product_of(case).geometry.groups
                    )


def test_long_sums_are_made_in_pieces() -> None:
    """Of the gradient of the weight, whose result has few tiles."""
    *_, last = RESIDUAL[1].cases()
    stages = TARGET.choose(last.node).stages
    assert [stage.name for stage in stages] == ["convolution_weight", "total"]
    assert dict(stages[0].options)["grid"] >= TARGET.machine.multiprocessors / 2


def machine_code(nodes: Sequence[Node], name: str, folder: Path) -> Compiled:
    """Kernels as a GPU gets them."""
    compiler = find_cuda_compiler(open_cache())
    if compiler is None:
        pytest.skip("there is no CUDA compiler")
    target = CudaTarget(arch(name))
    texts = [
        kernel_text(Call(node, target.choose(node)), target, f"kernel_{number}")
        for number, node in enumerate(nodes)
    ]
    body = "\n".join(texts)
    text = device_prelude(identifiers(body)) + body
    return compiler.compile(text, "unit.cu", target.machine, folder)


@pytest.mark.parametrize("name", ["sm_80", "sm_90"])
def test_machine_code(name: str, tmp_path: Path) -> None:
    """No spills; 16 bytes at a time from gathered operands too."""
    nodes = [case.node for one in (RESIDUAL[2], DEPTHWISE[1]) for case in one.cases()]
    made = machine_code(nodes, name, tmp_path)
    for kernel in made.resources:
        assert not kernel.spill_stores and not kernel.spill_loads, kernel
    for access in ("ld.global", "st.global", "ld.shared", "st.shared"):
        assert f"{access}.v4" in made.ptx, access


def test_two_blocks_of_the_largest_tiles_have_room(tmp_path: Path) -> None:
    made = machine_code([case.node for case in RESIDUAL[5].cases()], "sm_90", tmp_path)
    for kernel in made.resources:
        assert kernel.block != 256 or kernel.registers <= 128, kernel
        assert not kernel.spills, kernel
