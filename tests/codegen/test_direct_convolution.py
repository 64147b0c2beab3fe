"""The kernels of convolutions in C that are no Winograd's: every class of shapes at awkward sizes,
with what follows them, cut in every way, on every vector unit.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from c_sweep import CKernels, compiler_or_skip, for_isa
from convolution_cases import NAMES, Shape, check
from needs import needs_compiler
from sweep import Case
from vector_units import runnable

import noeira
from noeira.codegen.c.isa import AVX2, AVX512, ISA, ISAS, PLAIN
from noeira.codegen.c.target import CTarget
from noeira.codegen.kernels.patches.patch_cut import PatchCut
from noeira.codegen.kernels.patches.product import bundled
from noeira.errors import NoeiraError, VerifyError
from noeira.ir.body import body_of
from noeira.ir.op import op
from noeira.ir.plan import Choice, Stage
from noeira.nn import Conv2D

pytestmark = pytest.mark.ops(*NAMES)


@pytest.fixture(autouse=True)
def directly(monkeypatch: pytest.MonkeyPatch) -> None:
    """3x3 too."""
    monkeypatch.setenv("NOEIRA_CONV", "direct")


# Of all classes: one, two and three axes, stems, strides, dilations, groups that fill a vector, do
# not, or have unlike channels and filters, one filter a channel, one tap, unlike sides, places that
# no tap meets, kernels as large as the image.
SHAPES = (
    Shape(2, 17, 33, (7, 5), (3, 3), padding=(1, 1)),
    Shape(3, 3, 31, (9, 10), (3, 3), padding=(1, 1)),
    Shape(1, 3, 16, (17, 15), (7, 7), (2, 2), (3, 3)),
    Shape(2, 33, 18, (8, 9), (3, 3), (2, 2), (1, 1)),
    Shape(2, 16, 64, (6, 6), (1, 1), (2, 2)),
    Shape(3, 40, 37, (3, 5), (1, 1)),
    Shape(1, 5, 6, (11, 12), (3, 2), (3, 2), (2, 0, 1, 3), (2, 3)),
    Shape(2, 4, 4, (7, 7), (2, 2), (3, 3)),
    Shape(1, 20, 9, (5, 6), (5, 6)),
    Shape(2, 12, 24, (6, 5), (3, 3), padding=(1, 1), groups=3),
    Shape(1, 16, 64, (5, 5), (3, 3), (2, 1), (1, 1), groups=2),
    Shape(1, 6, 12, (6, 6), (3, 3), padding=(1, 1), groups=6),
    Shape(2, 19, 19, (6, 9), (3, 3), padding=(1, 1), groups=19),
    Shape(1, 35, 35, (9, 8), (5, 3), (2, 1), (2, 1), (1, 2), groups=35),
    Shape(2, 18, 18, (4, 3, 5), (2, 3, 3), (1, 2, 1), (0, 1, 1), groups=18),
    Shape(2, 7, 5, (19,), (4,), (2,), (1,)),
    Shape(1, 64, 8, (21,), (3,), (1,), (2,), (2,)),
    Shape(1, 5, 18, (4, 5, 6), (2, 3, 3), (2, 1, 2), (1, 1, 0)),
)

# Many channels or filters, of which what a thread has of its own must still have room.
LARGE = (
    Shape(1, 64, 20001, (3, 3), (2, 2)),
    Shape(1, 3000, 8, (3, 3), (3, 3), padding=(1, 1)),
    Shape(1, 2048, 2048, (2, 2), (1, 1), (2, 2)),
    Shape(1, 1, 1, (1000, 1000), (500, 500)),
)


@needs_compiler
@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("isa", runnable(), ids=lambda isa: isa.name)
def test_every_class_of_shapes(isa: ISA, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    full = isa is runnable()[0] and dtype == "f32"
    pairs = list(product(SHAPES, NAMES))[:: 1 if full else 2]
    cases = [
        shape.case(name, dtype, tail=number % 2 == 0) for number, (shape, name) in enumerate(pairs)
    ]
    choices = list[Choice]()
    for (shape, _), case in zip(pairs, cases, strict=True):
        monkeypatch.setenv("NOEIRA_CONV", "direct" if shape.groups == 1 else "auto")
        choices.append(CTarget(isa).choose(case.node))
    check(cases, isa, choices, full=full)


def cuts(shape: Shape, name: str, isa: ISA) -> Iterator[tuple[Stage, ...]]:
    """The stages of cuts that differ in every option."""
    node = shape.case(name, "f32", False).node
    target, body = CTarget(isa), body_of(node)
    made = target.anchor(body).rule(body, isa)
    assert isinstance(made, PatchCut)
    edits: tuple[dict[str, Any], ...] = (
        {"depth": 1, "tile": 1},
        {"depth": 5, "tile": 2, "block": 3, "vectors": 1},
        {"depth": 20, "tile": 3, "vectors": 1, "parts": 2},
        {"depth": 7, "tile": 5, "block": 1, "slots": 3},
        {"pack": True, "block": 2},
        {"pack": False, "split": True},
        {"bundle": 1, "pack": True},
        {"bundle": 3, "pack": True},
    )
    for edit in edits:
        yield replace(made, options=replace(made.options, **edit)).stages()


@needs_compiler
def test_every_cut() -> None:
    isa = runnable()[0]
    cases, choices, target = list[Case](), list[Choice](), CTarget(isa)
    for shape, name in product((SHAPES[i] for i in (1, 3, 5, 10, 11, 17)), NAMES):
        for stages in cuts(shape, name, isa):
            case = shape.case(name, "f32", tail=len(choices) % 2 == 0)
            body = body_of(case.node)
            anchor = target.anchor(body)
            try:
                cut = anchor.read(body, stages, isa)
            except VerifyError:
                continue
            cases.append(case)
            choices.append(anchor.choice(body, cut, isa))
    assert len(cases) > 60
    check(cases, isa, choices)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_references_are_those_of_torch(shape: Shape, name: str) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    case = shape.case(name, "f64", False)
    arrays, axes = case.arrays(), len(shape.size)
    padding = shape.padding or (0,) * axes
    before, after = (padding[:axes], padding[-axes:])
    x = torch.zeros(shape.image, dtype=torch.float64)
    w = torch.zeros(shape.weight, dtype=torch.float64)
    given = dict(zip(case.node.operands, map(torch.from_numpy, arrays), strict=True))
    x, w = (given.get(key, zero).requires_grad_() for key, zero in (("x", x), ("weight", w)))
    sides = [side for pair in zip(before[::-1], after[::-1], strict=True) for side in pair]
    padded = torch.nn.functional.pad(x.movedim(-1, 1), sides)
    convolve = getattr(torch.nn.functional, f"conv{axes}d")
    one = (1,) * axes
    stride, dilation = shape.stride or one, shape.dilation or one
    filters = w.movedim((-1, -2), (0, 1))
    y = convolve(padded, filters, None, stride, 0, dilation, shape.groups).movedim(1, -1)
    wanted = y
    if "d" in given:
        y.backward(given["d"])
        wanted = x.grad if name == "transposed_convolution" else w.grad
    (made,) = op(name).reference(case.node.attrs, *case.node.arguments(arrays))
    np.testing.assert_allclose(made, wanted.detach().numpy(), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("isa", ISAS.values(), ids=list(ISAS))
def test_choices_fit_the_machine(isa: ISA) -> None:
    for shape, name, scale in product((*SHAPES, *LARGE), NAMES, (1, 40)):
        larger = Shape(**{**vars(shape), "batch": shape.batch * scale})
        for dtype in ("f32", "f64"):
            body = body_of(larger.case(name, dtype, False).node)
            anchor = CTarget(isa).anchor(body)
            cut = anchor.rule(body, isa)
            assert anchor.read(body, anchor.stages(body, cut, isa), isa) == cut
            if isinstance(cut, PatchCut):
                assert max((r + 1) * v for r, v in cut.tiles) < isa.registers


def chosen(shape: Shape, name: str) -> list[str]:
    """The names of the stages that are chosen."""
    choice = CTarget(AVX512).choose(shape.case(name, "f32", False).node)
    return [stage.name for stage in choice.stages]


def test_a_setting_says_which_algorithm(monkeypatch: pytest.MonkeyPatch) -> None:
    square = Shape(8, 32, 32, (16, 16), (3, 3), padding=(1, 1))
    assert chosen(square, "convolution") == ["direct"]
    assert chosen(square, "transposed_convolution") == ["pack", "direct"]
    monkeypatch.delenv("NOEIRA_CONV")
    assert "winograd" in chosen(square, "convolution")
    strided = Shape(8, 32, 32, (16, 16), (3, 3), (2, 2), (1, 1))
    assert chosen(strided, "convolution") == ["direct"]
    assert chosen(SHAPES[12], "convolution_weight") == ["depthwise", "total"]
    for setting, algorithm in (("auto", "Winograd F(4x4, 3x3)"), ("winograd2", "F(2x2, 3x3)")):
        monkeypatch.setenv("NOEIRA_CONV", setting)
        text = str(noeira.explain(Conv2D.of(32, 32, 3, padding=1), input=(32, 16, 16), batch=8))
        assert f"{algorithm} in 2 stages: weights, winograd\n" in text
    text = str(noeira.explain(Conv2D.of(8, 32, 3, stride=2), input=(8, 8, 8), batch=8))
    assert "└ direct\n" in text
    monkeypatch.setenv("NOEIRA_CONV", "fast")
    with pytest.raises(NoeiraError, match="expected auto, direct or winograd2"):
        chosen(square, "convolution")


def test_groups_are_taken_together_where_they_fill_a_vector() -> None:
    assert [bundled(*given) for given in ((32, 4, 16), (6, 3, 16), (2, 9, 16))] == [4, 3, 1]


@needs_compiler
def test_a_nan_stays_in_its_group_where_that_is_asked_for() -> None:
    case = SHAPES[11].case("convolution", "f32", False)
    made, arrays = CKernels.of(CTarget(PLAIN), [case]), case.arrays()
    arrays[0][0, 2, 3, 5] = np.nan
    (y,) = made.built(for_isa(compiler_or_skip(), PLAIN)).run(case, arrays)
    assert np.isnan(y[0, 2, 3, 10:]).all() and not np.isnan(y[..., :10]).any()


def cut_of(shape: Shape, name: str) -> PatchCut:
    """The cut that the rule gives."""
    body = body_of(shape.case(name, "f32", False).node)
    cut = CTarget(AVX2).anchor(body).rule(body, AVX2)
    assert isinstance(cut, PatchCut)
    return cut


def test_few_places_are_shared_by_columns_and_few_taps_by_places() -> None:
    few = Shape(1, 64, 512, (4, 4), (3, 3), padding=(1, 1))
    cut = cut_of(few, "convolution")
    assert cut.options.parts > 1
    assert len(cut.parts.sizes) == 1
    stem = Shape(8, 3, 16, (32, 32), (3, 3), padding=(1, 1))
    assert cut_of(stem, "convolution_weight").options.slots > 1
