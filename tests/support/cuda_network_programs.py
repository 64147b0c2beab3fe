"""What test_pycuda.py runs in child processes: whole networks through pycuda on the fake driver.

`python -m cuda_network_programs NAME` runs one function of this module.
"""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
from child_programs import Programs, refused
from emulated_cubins import emulate_cubins

import noeira
from noeira.codegen.cuda.arch import DEFAULT_ARCH
from noeira.datasets import MNIST
from noeira.errors import DeviceError, DeviceMemoryError
from noeira.nn import Adam, CrossEntropy, Linear, LinearReLU, Sequential
from noeira.runtime.cuda.builder import PTX
from noeira.runtime.cuda.device import open_cuda

MLP = Sequential[LinearReLU[784, 256], Linear[256, 10]]
SMALL = Sequential[LinearReLU[12, 17], Linear[17, 5]]
# Choices may differ from one architecture to another, so the device is of that of `cuda-cpu`.
CAPABILITY = f"{DEFAULT_ARCH[3:-1]}.{DEFAULT_ARCH[-1]}"
programs = Programs()


def batch(rows: int, dtype: str = "f32") -> tuple[np.ndarray, np.ndarray]:
    """A batch of random samples and classes for SMALL."""
    random = np.random.default_rng(0)
    x = random.standard_normal((rows, 12)).astype(np.float64 if dtype == "f64" else np.float32)
    return x, random.integers(0, 5, rows).astype(np.int32)


def compiled(target: str, net: Any = SMALL, rows: int = 7, dtype: Any = "f32") -> noeira.Program:
    """A network with its step for a target."""
    return noeira.compile(
        net, loss=CrossEntropy, optimizer=Adam(), batch=rows, dtype=dtype, target=target
    )


def bits(program: noeira.Program) -> list[bytes]:
    """Everything that training changes: parameters, then moments."""
    params = [program.params[name].tobytes() for name in program.params]
    return params + [program.store.moment(kind, "0.weight").tobytes() for kind in ("m", "v")]


def check_equal_steps(dtype: str) -> None:
    """Single steps, gradients and forward on both targets give the same bits."""
    x, y = batch(7, dtype)
    on_gpu, on_cpu = (compiled(target, dtype=dtype) for target in ("cuda", "cuda-cpu"))
    for _ in range(5):
        assert on_gpu.step(x, y) == on_cpu.step(x, y)
        assert bits(on_gpu) == bits(on_cpu)
    assert on_gpu.gradients(x, y) == on_cpu.gradients(x, y)
    gradients = [p.store.view("grd", "0.weight").tobytes() for p in (on_gpu, on_cpu)]
    assert gradients[0] == gradients[1]
    for rows in (1, 7, 8, 20):
        x, _ = batch(rows, dtype)
        assert on_gpu.forward(x).tobytes() == on_cpu.forward(x).tobytes()


@programs(FAKE_CUDA_CAPABILITY=CAPABILITY)
def steps_have_the_bits_of_cuda_cpu() -> None:
    check_equal_steps("f32")


@programs(FAKE_CUDA_CAPABILITY=CAPABILITY)
def steps_in_double_precision_have_the_bits_of_cuda_cpu() -> None:
    check_equal_steps("f64")


@programs(FAKE_CUDA_CAPABILITY=CAPABILITY, FAKE_CUDA_ORDER="random")
def the_order_of_threads_does_not_matter() -> None:
    check_equal_steps("f32")


@programs(FAKE_CUDA_CAPABILITY=CAPABILITY)
def training_has_the_bits_of_cuda_cpu() -> None:
    mnist, found = MNIST(), []
    for target in ("cuda", "cuda-cpu"):
        program = compiled(target, MLP, 100)
        test = mnist.test.x[:500], mnist.test.y[:500]
        program.load(mnist.train.x[:2000], mnist.train.y[:2000], evaluation=test)
        losses = [program.steps(), program.steps(30), program.steps(20)]
        found.append((losses, program.evaluate(), bits(program)))
    assert found[0] == found[1]
    assert found[0][0][2] < 0.6 < found[0][0][0]


@programs(FAKE_CUDA_CAPABILITY="9.0")
def an_architecture_of_its_own_is_taken() -> None:
    x, y = batch(7)
    program, expected = compiled("cuda"), compiled("reference")
    assert open_cuda().arch == "sm_90"
    for _ in range(3):
        np.testing.assert_allclose(program.step(x, y), expected.step(x, y), rtol=1e-5)


@programs(FAKE_CUDA_CAPABILITY="12.0")
def a_device_newer_than_all_that_are_known_is_given_ptx() -> None:
    x, y = batch(7)
    program, expected = compiled("cuda"), compiled("reference")
    np.testing.assert_allclose(program.step(x, y), expected.step(x, y), rtol=1e-5)
    assert {path.name for path in open_cuda().modules} == {PTX}


@programs()
def a_step_that_is_not_finite_changes_nothing() -> None:
    program, (x, y) = compiled("cuda", rows=4), batch(8)
    x[3, 4] = np.inf
    before = bits(program)
    program.load(x, y, shuffle=False)
    refused(noeira.NotFiniteError, "", program.steps, 5)
    assert bits(program) == before


@programs()
def memory_comes_back() -> None:
    x, y = batch(7)
    device = open_cuda()
    for _ in range(3):
        program = compiled("cuda")
        program.step(x, y)
        assert device.memory()[0] < device.memory()[1]
        program.close()
        del program
        gc.collect()
    assert device.memory()[0] == device.memory()[1]


@programs(FAKE_CUDA_MEMORY="1000000")
def a_network_too_large_names_its_largest_values() -> None:
    x, y = np.zeros((100, 784), np.float32), np.zeros(100, np.int32)
    program = compiled("cuda", MLP, 100)
    error = refused(DeviceMemoryError, "out of memory", program.step, x, y)
    assert "the largest values are" in str(error)
    assert error.asked > error.free
    # The program is as good as before, and says the same again.
    refused(DeviceMemoryError, "out of memory", program.step, x, y)


@programs(driver=False)
def without_a_driver_it_is_not_compiled() -> None:
    refused(DeviceError, "there is no NVIDIA driver", compiled, "cuda")


@programs(FAKE_CUDA_DEVICES="0")
def without_a_device_it_is_not_compiled() -> None:
    refused(DeviceError, "no NVIDIA GPU", compiled, "cuda")


if __name__ == "__main__":
    emulate_cubins()
    programs.main()
