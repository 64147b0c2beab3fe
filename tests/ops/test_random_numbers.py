"""Random numbers in expressions, by a dropout as a user writes it: a mask is a function of seed,
tick, stream and element, the same bits on every target, forwards and backwards.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from c_sweep import CKernels, compiler_or_skip, for_isa
from cuda_sweep import ONE, CudaKernels
from needs import needs_compiler, needs_cxx
from sweep import Case, in_memory
from vector_maths import native_isa

import noeira
from noeira.codegen.c.isa import AVX2, AVX512, PLAIN
from noeira.codegen.c.target import CTarget
from noeira.errors import DtypeError, VerifyError
from noeira.ir.builder import Builder
from noeira.ir.fused import close
from noeira.ir.graph import Attrs, Value
from noeira.ir.interpret import interpret, results_of
from noeira.ir.op import OPS
from noeira.ir.ops.elementwise import Elementwise
from noeira.ir.orders import IMAGES, ordered
from noeira.ir.random import philox, uniform24
from noeira.ir.samples import Draw
from noeira.ir.scalar import Expr, call, select, var
from noeira.ir.states import COUNTER
from noeira.ir.types import TensorType
from noeira.nn import MSE, Fused, Linear, Module, Scope, Sequential


@dataclass(frozen=True)
class RateAttrs(Attrs):
    """rate: the share of elements that become 0."""

    rate: float = 0.25


class Dropout(Elementwise):
    """x / (1 - rate) where a random number is at least the rate, else 0"""

    name, Attrs = "own_dropout", RateAttrs
    operands = ("x", "seed", "tick", "stream")
    numbers = ("seed", "tick", "stream")

    def expression(self, attrs: RateAttrs) -> Expr:
        drawn = call("uniform", var("seed"), var("tick"), var("stream"))
        return select(call("ge", drawn, attrs.rate), var("x") * (1 / (1 - attrs.rate)), 0)


class Own(Module):
    """The layer: nothing happens but in training."""

    signature = "(*) -> (*)"

    @classmethod
    def trace(cls, scope: Scope, x: Value) -> Value:
        return scope.emit("own_dropout", x, *scope.random()) if scope.phase == "train" else x


# The upper bits of ticks count, and so do only the lower 32 of a stream.
SEED, TICK, STREAM = 7, 2**40 + 3, 5
NUMBERS = [np.array(number, np.int64) for number in (SEED, TICK, STREAM)]


def case_of(build: Callable[[Builder, Value, list[Value]], Value], *types: TensorType) -> Case:
    """What `build` emits over an operand of the first type and the three numbers, as one kernel."""
    builder = Builder("random")
    x = builder.input("x", types[0])
    keys = [builder.input(name, COUNTER) for name in ("seed", "tick", "stream")]
    made = build(builder, x, keys)
    node = builder.nodes[0]
    if len(builder.nodes) > 1:
        node = close(tuple(builder.nodes), {made.name}, node.origin)
    return Case(str(types[0]), node, tuple(Draw(v.type) for v in node.inputs))


def dropout(builder: Builder, x: Value, keys: list[Value]) -> Value:
    """One dropout."""
    return builder.emit("own_dropout", x, *keys)


def rows_of(builder: Builder, x: Value, keys: list[Value]) -> Value:
    """One over rows that begin anywhere, since another operand has one row; its result is read."""
    row = builder.input("row", TensorType(x.type.dtype, x.type.shape[-1:]))
    dropped = builder.emit("own_dropout", builder.emit("add", x, row), *keys, rate=0.5)
    return builder.emit("multiply", dropped, x)


def channels_of(builder: Builder, x: Value, keys: list[Value]) -> Value:
    """One over images that other operands are repeated to, one for each channel."""
    axes = len(x.type.shape) - 2
    each = builder.input("each", TensorType(x.type.dtype, (x.type.shape[1], *(1,) * axes)))
    return builder.emit("multiply", builder.emit("own_dropout", x, *keys), each)


def image(dtype: str, shape: tuple[int, ...]) -> TensorType:
    """Images whose channels lie last."""
    return ordered(TensorType(dtype, shape), IMAGES[len(shape)])


SHAPES = ((1,), (3,), (64,), (101,), (9, 37), (5, 16), (300, 21))
# Fewer channels than a vector has lanes, as many as several vectors have, and some in between.
IMAGE_SHAPES = ((3, 3, 5, 1), (2, 32, 3, 3), (2, 21, 18), (2, 37, 2, 1, 3))
CASES = [
    case_of(build, TensorType(dtype, shape))
    for dtype in ("f32", "f64", "bf16")
    for shape in SHAPES
    for build in (dropout, rows_of)
    if len(shape) > 1 or build is dropout
]
CASES += [
    case_of(build, image(dtype, shape))
    for dtype in ("f32", "f64", "bf16")
    for shape in IMAGE_SHAPES
    for build in (dropout, channels_of)
]


def arrays_of(case: Case) -> list[np.ndarray]:
    """The operands of a case; the numbers are fixed."""
    drawn = [a for a, v in zip(case.arrays(3), case.node.inputs, strict=True) if v.type.is_float]
    floats = iter(drawn)
    keys = dict(zip(("seed", "tick", "stream"), NUMBERS, strict=True))
    return [keys[v.name] if v.name in keys else next(floats) for v in case.node.inputs]


def expected(case: Case, arrays: list[np.ndarray]) -> np.ndarray:
    """The result by the references."""
    values = {v.name: a for v, a in zip(case.node.inputs, arrays, strict=True)}
    for part in case.node.parts:
        results = results_of(part, [values[v.name] for v in part.inputs])
        values |= {v.name: r for v, r in zip(part.outputs, results, strict=True)}
    return values[case.node.outputs[0].name]


def check(run: Callable[[Case, list[np.ndarray]], list[np.ndarray]]) -> None:
    """Every case gives the bits of the references."""
    for case in CASES:
        arrays, (made,) = arrays_of(case), case.node.outputs
        pairs = zip(arrays, case.node.inputs, strict=True)
        (got,) = run(case, [in_memory(array, value.type.order) for array, value in pairs])
        want = in_memory(expected(case, arrays), made.type.order)
        assert got.tobytes() == want.tobytes(), case.label


def around_rows(builder: Builder, x: Value, keys: list[Value]) -> Value:
    """One before rows and one after them, of the same numbers."""
    return dropout(builder, builder.emit("softmax", dropout(builder, x, keys)), keys)


AROUND = [case_of(around_rows, TensorType("f32", shape)) for shape in ((9, 37), (5, 16))]


@pytest.mark.parametrize("language", ["c", "cuda"])
def test_the_same_numbers_before_and_after_rows(language: str) -> None:
    if language == "c":
        isa = native_isa()
        built = CKernels.of(CTarget(isa), AROUND).built(for_isa(compiler_or_skip(), isa))
    else:
        built = CudaKernels.of(AROUND, ONE).built(check=True)
    for case in AROUND:
        arrays = arrays_of(case)
        (got,) = built.run(case, arrays)
        np.testing.assert_allclose(got, expected(case, arrays), rtol=1e-5)


@pytest.mark.parametrize("isa", [AVX512, AVX2, PLAIN], ids=lambda isa: isa.name)
def test_bits_in_c(isa: Any) -> None:
    native = native_isa()
    if isa not in (native, PLAIN) and (isa, native) != (AVX2, AVX512):
        pytest.skip(f"this machine has no {isa.name}")
    built = CKernels.of(CTarget(isa), CASES).built(for_isa(compiler_or_skip(), isa))
    check(built.run)


def test_bits_in_cuda() -> None:
    built = CudaKernels.of(CASES, ONE).built(check=True)
    check(built.run)


def test_every_element_has_a_word_of_its_own() -> None:
    words = philox(SEED, STREAM, 0, 26, TICK)
    drawn = uniform24(SEED, STREAM, 101, TICK)
    for element, number in enumerate(drawn):
        assert number == (words[element // 4][element % 4] >> 8) / 2**24
    assert drawn.tobytes() == uniform24(SEED + 2**32, STREAM, 101, TICK).tobytes()


def mask(shape: tuple[int, ...], seed: int = 1, tick: int = 1, stream: int = 1) -> np.ndarray:
    """Where elements are kept, as the reference has it, a quarter dropped."""
    keys = [np.array(number, np.int64) for number in (seed, tick, stream)]
    return OPS["own_dropout"].reference(RateAttrs(), np.ones(shape, np.float32), *keys)[0] > 0


def test_masks_look_random() -> None:
    one = mask((400, 500))
    size = one.size
    # Three standard deviations of a count, and of what two independent masks have in common.
    assert abs(one.mean() - 0.75) < 3 * np.sqrt(0.75 * 0.25 / size)
    flat = one.ravel()
    for other in (mask((400, 500), seed=2), mask((400, 500), tick=2), mask((400, 500), stream=2)):
        assert abs((one & other).mean() - 0.75**2) < 3 * np.sqrt(0.25 / size)
    for distance in (1, 2, 3, 4, 500):
        assert abs((flat[distance:] & flat[:-distance]).mean() - 0.75**2) < 3 * np.sqrt(0.25 / size)
    # An element's number is its place in memory, whatever the shape.
    assert np.array_equal(flat, mask((200_000,)))


def test_backwards_the_mask_is_the_same() -> None:
    attrs, shape = RateAttrs(rate=0.4), (40, 50)
    slope = noeira.ir.op.op("own_dropout.d0")
    assert slope.operands == ("d", "a.seed", "a.tick", "a.stream")
    ones = np.ones(shape, np.float64)
    (forward,) = OPS["own_dropout"].reference(attrs, ones, *NUMBERS)
    (backward,) = slope.reference(attrs, ones, *NUMBERS)
    assert np.array_equal(forward, backward) and 0.5 < (forward > 0).mean() < 0.7


Fusedly = Sequential[Fused[Linear[5, 7], Own], Own, Linear[7, 3]]
Apart = Sequential[Linear[5, 7], Own, Own, Linear[7, 3]]


def gradients(network: Any, target: str, dtype: Any = "f64") -> list[np.ndarray]:
    """Three losses and gradients of a network, of other random numbers each."""
    random = np.random.default_rng(0)
    kind = np.float32 if dtype == "f32" else np.float64
    x, y = (random.standard_normal((10, n)).astype(kind) for n in (5, 3))
    program = noeira.compile(network, loss=MSE, batch=10, dtype=dtype, target=target, seed=4)
    found = []
    for _ in range(3):
        found += [np.array(program.gradients(x, y)), program.store.arrays["gradients"].copy()]
    return found


@needs_compiler
@needs_cxx
def test_in_a_network_behind_a_product_and_alone() -> None:
    wanted = gradients(Fusedly, "reference")
    assert not np.allclose(wanted[0], wanted[2])
    for target in ("cpu", "cuda-cpu"):
        for got, want in zip(gradients(Fusedly, target), wanted, strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-14)


@needs_compiler
def test_fused_it_gives_the_same_bits() -> None:
    for one, other in zip(
        gradients(Fusedly, "cpu", "f32"), gradients(Apart, "cpu", "f32"), strict=True
    ):
        assert one.tobytes() == other.tobytes()


def test_what_it_may_not_read() -> None:
    builder = Builder("wrong")
    x = builder.input("x", TensorType("f32", (3,)))
    seed = builder.input("seed", TensorType("i32", ()))
    with pytest.raises(DtypeError, match=r"own_dropout: operand seed is i32\[\], it must be i64"):
        builder.emit("own_dropout", x, seed, seed, seed)

    class Stray(Elementwise):
        name = "stray_random"

        def expression(self, attrs: Any) -> Expr:
            return call("uniform", var("x"), var("x"), var("x"))

    with pytest.raises(VerifyError, match="draws from x, which is not one of the `numbers`"):
        builder.emit("stray_random", x)

    class Both(Dropout):
        name = "stray_both"

        def expression(self, attrs: RateAttrs) -> Expr:
            return super().expression(attrs) + var("tick")

    keys = [builder.input(name, COUNTER) for name in ("seed64", "tick", "stream")]
    with pytest.raises(VerifyError, match="draws from tick and reckons with it"):
        builder.emit("stray_both", x, *keys)
    for name in ("stray_random", "stray_both"):
        OPS.pop(name)


class Positions(Elementwise):
    """x plus whole numbers, one for each column: they become floats where they are read."""

    name, operands, numbers = "own_positions", ("x", "place"), ("place",)

    def expression(self, attrs: Any) -> Expr:
        return var("x") + var("place") * 0.5


def test_whole_numbers_in_arithmetic() -> None:
    builder = Builder("positions")
    x = builder.input("x", TensorType("f32", (4, 5)))
    place = builder.input("place", TensorType("i32", (5,)))
    y = builder.emit("own_positions", x, place)
    graph = builder.done((y,))
    given = {"x": np.ones((4, 5), np.float32), "place": np.arange(5, dtype=np.int32)}
    assert interpret(graph, given)[y.name][3].tolist() == [1.0, 1.5, 2.0, 2.5, 3.0]
    case = Case("positions", graph.nodes[0], (Draw(x.type), Draw(place.type)))
    compiler = compiler_or_skip()
    (got,) = (
        CKernels.of(CTarget(compiler.isa), [case]).built(compiler).run(case, list(given.values()))
    )
    assert np.array_equal(got, interpret(graph, given)[y.name])
