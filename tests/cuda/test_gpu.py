"""What only a GPU can show: every op's kernels, steps and training, through pycuda on a real one.

`make gpu` runs these, and `-s` shows where a GPU's bits differ from those of the CPU's execution.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, cached_property
from typing import Any

import numpy as np
import pytest
from cuda_sweep import CudaKernels, CudaLibrary
from guarded import empty
from samples import retyped
from sweep import Case, assert_agrees, sample_case
from swept_ops import chosen, each_op, launching

import noeira
from noeira.codegen.cuda.target import CudaTarget
from noeira.codegen.language import CUDA
from noeira.codegen.source import Source
from noeira.codegen.view import function_names
from noeira.datasets import MNIST
from noeira.errors import CompilerError, DeviceError, DeviceMemoryError
from noeira.ir.op import Op
from noeira.ir.plan import Call
from noeira.nn import Adam, CrossEntropy, Linear, LinearReLU, Sequential
from noeira.runtime.build.cache import open_cache
from noeira.runtime.build.library import build_library
from noeira.runtime.cuda.toolchain import CudaToolchain, cuda_toolchain
from noeira.runtime.device.device import Argument, BoundLaunch, Memory

pytestmark = pytest.mark.gpu

MLP = Sequential[LinearReLU[784, 256], Linear[256, 10]]
# How much larger than on the CPU errors may be: the GPU's exponentials and the like are wrong by 2
# units in the last place, or more, where the C library's are by less than 1.
MATHS = 4
SIZES = (1, 31, 32, 33, 100, 127, 257)


@pytest.fixture(scope="session")
def gpu() -> CudaToolchain:
    """The GPU with its compiler; a test is skipped where one of them is not there."""
    try:
        return cuda_toolchain()
    except (DeviceError, CompilerError) as error:
        pytest.skip(str(error))


class OnDevice:
    """The kernels of many cases as one unit of a GPU."""

    def __init__(self, gpu: CudaToolchain, cases: Sequence[Case]) -> None:
        self.gpu, self.device = gpu, gpu.device
        self.kernels = CudaKernels.of(cases, CudaTarget(gpu.arch))

    @cached_property
    def module(self) -> Any:
        """The unit, built and loaded."""
        source = Source(CUDA, "sweep", self.kernels.text, "")
        library = build_library(source, self.gpu.builder, open_cache())
        return self.device.load(self.gpu.path(library), self.gpu.arch.name)

    def run(self, case: Case, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The outputs of a case."""
        number = self.kernels.cases.index(case)
        choice = self.kernels.choices[number]
        outputs = [np.asarray(empty(value)) for value in case.node.outputs]
        with self.device.session():
            memories = [self.sent(array) for array in (*arrays, *outputs)]
            workspace = Memory(self.device, choice.workspace)
            self.device.fill(workspace.pointer, 0xFF, max(choice.workspace, 1))
            given = [workspace, *memories]
            arguments = tuple(Argument("", "output", m.pointer, m.nbytes) for m in given)
            names = function_names(Call(case.node, choice), self.kernels.symbols[number])
            for name, stage in zip(names, choice.stages, strict=True):
                o = dict(stage.options)
                launch = BoundLaunch(name, o["grid"], o["block"], o.get("shared", 0), arguments)
                self.device.launcher(self.module, launch)()
            for array, memory in zip(outputs, memories[len(arrays) :], strict=True):
                self.device.copy_out(array, memory.pointer)
            self.device.synchronize()
        return outputs

    def sent(self, array: np.ndarray) -> Memory:
        """Memory of the device with an array."""
        memory = Memory(self.device, array.nbytes)
        self.device.copy_in(memory.pointer, array)
        return memory


@cache
def cases_of(rule: Op, dtype: str) -> tuple[Case, ...]:
    """The samples of an op."""
    return tuple(sample_case(rule, retyped(sample, dtype)) for sample in rule.samples())


@cache
def swept(gpu: CudaToolchain, dtype: str) -> tuple[OnDevice, CudaLibrary]:
    """The kernels of all samples, for the GPU and for the CPU."""
    device = OnDevice(gpu, [case for rule in chosen(launching()) for case in cases_of(rule, dtype)])
    return device, device.kernels.built()


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@each_op(launching())
def test_kernels(gpu: CudaToolchain, rule: Op, dtype: str) -> None:
    device, on_cpu = swept(gpu, dtype)
    for number, case in enumerate(cases_of(rule, dtype)):
        arrays = case.arrays(number)
        results, again = device.run(case, arrays), device.run(case, arrays)
        assert_agrees(case, results, arrays, factor=MATHS)
        assert [a.tobytes() for a in results] == [a.tobytes() for a in again], case.label
        emulated = on_cpu.run(case, arrays)
        for got, other in zip(results, emulated, strict=True):
            if got.tobytes() != other.tobytes():
                print(f"{case.label}: differs from the CPU by {np.nanmax(abs(got - other))}")


@pytest.mark.parametrize("size", SIZES)
def test_gradients_of_every_size(gpu: CudaToolchain, size: int) -> None:
    classes = max(size, 2)
    net = Sequential[LinearReLU[size, size + 1], Linear[size + 1, classes]]
    random = np.random.default_rng(size)
    x = random.standard_normal((size, size)).astype(np.float32)
    y, found = random.integers(0, classes, size).astype(np.int32), []
    for target in ("cuda", "reference"):
        program = noeira.compile(net, loss=CrossEntropy, batch=size, target=target)
        loss = program.gradients(x, y)
        found.append((loss, program.store.view("grd", "0.weight").copy()))
    np.testing.assert_allclose(found[0][0], found[1][0], rtol=1e-5)
    np.testing.assert_allclose(found[0][1], found[1][1], rtol=1e-4, atol=1e-6)


def losses(target: str, steps: int) -> list[float]:
    """The loss of each step of the MLP on digits."""
    train = MNIST().train
    program = noeira.compile(MLP, loss=CrossEntropy, optimizer=Adam(), batch=100, target=target)
    program.load(train.x[:4000], train.y[:4000])
    return [program.steps() for _ in range(steps)]


def test_steps_follow_the_reference_and_the_cpu(gpu: CudaToolchain) -> None:
    found = {target: losses(target, 50) for target in ("cuda", "cuda-cpu", "reference")}
    for target in ("cuda-cpu", "reference"):
        difference = np.abs(np.subtract(found["cuda"], found[target])).max()
        print(f"cuda and {target}: the losses of 50 steps differ by {difference}")
        assert difference < 1e-4


def test_steps_are_the_same_every_time(gpu: CudaToolchain) -> None:
    assert losses("cuda", 30) == losses("cuda", 30)


def test_mnist(gpu: CudaToolchain) -> None:
    mnist, accuracy = MNIST(), {}
    for target in ("cuda", "cpu"):
        program = noeira.compile(MLP, loss=CrossEntropy, optimizer=Adam(), batch=100, target=target)
        test = mnist.test.x, mnist.test.y
        program.load(mnist.train.x, mnist.train.y, evaluation=test)
        program.steps(200)
        accuracy[target] = program.evaluate()["accuracy"]
    print(accuracy)
    assert accuracy["cuda"] > 0.85
    assert abs(accuracy["cuda"] - accuracy["cpu"]) < 0.01


def test_memory_runs_out(gpu: CudaToolchain) -> None:
    _, total = gpu.device.memory()
    with pytest.raises(DeviceMemoryError, match="out of memory") as found:
        Memory(gpu.device, 2 * total)
    assert found.value.asked == 2 * total
    assert found.value.total == total
    Memory(gpu.device, 1000)
