"""The GPU through pycuda, with a pycuda made for the test: what each thing that is missing says,
and how its calls are used.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest

from noeira.commands import doctor
from noeira.errors import DeviceError, DeviceMemoryError
from noeira.runtime.cuda import device as cuda
from noeira.runtime.cuda import driver as cuda_driver
from noeira.runtime.cuda.device import open_cuda
from noeira.runtime.cuda.driver import found_devices, require_pycuda
from noeira.runtime.device.device import Argument, BoundLaunch, Memory, Pinned


class Error(Exception):
    """The parent of pycuda's errors."""


class OutOfMemory(Error):
    """pycuda's MemoryError."""


class LaunchError(Error):
    """A kernel that failed in one of some ways."""


class LogicError(Error):
    """All that pycuda has no other class for, such as a kernel with a wrong address."""


class Context:
    """A context that counts."""

    pushed = 0

    detached = 0

    def push(self) -> None:
        Context.pushed += 1

    def detach(self) -> None:
        Context.detached += 1

    @staticmethod
    def pop() -> None:
        Context.pushed -= 1


class Gpu:
    """What pycuda calls a Device."""

    gpus: ClassVar[list[tuple[str, tuple[int, int]]]] = [
        ("NVIDIA H200", (9, 0)),
        ("NVIDIA T4", (7, 5)),
    ]

    def __init__(self, number: int) -> None:
        self.number = number

    @staticmethod
    def count() -> int:
        return len(Gpu.gpus)

    def name(self) -> str:
        return Gpu.gpus[self.number][0]

    def compute_capability(self) -> tuple[int, int]:
        return Gpu.gpus[self.number][1]

    def total_memory(self) -> int:
        return 141 * 10**9

    def retain_primary_context(self) -> Context:
        return Context()


class Allocation:
    """Memory."""

    freed = 0

    def __init__(self, pointer: int) -> None:
        self.pointer = pointer

    def __int__(self) -> int:
        return self.pointer

    def free(self) -> None:
        assert Context.pushed
        Allocation.freed += 1


class Function:
    """A kernel that writes down how it is called."""

    def __init__(self, name: str, calls: list[Any]) -> None:
        self.name, self.calls = name, calls

    def prepare(self, format: str) -> Function:
        self.format = format
        return self

    def set_attribute(self, attribute: str, value: int) -> None:
        self.calls.append((attribute, value))

    def prepared_async_call(self, *arguments: Any, shared_size: int) -> None:
        if self.name == "broken":
            raise LaunchError("cuLaunchKernel failed: too many resources requested for launch")
        self.calls.append((self.name, self.format, *arguments, shared_size))


def make_driver() -> Any:
    """A module like pycuda.driver."""
    driver: Any = ModuleType("pycuda.driver")
    driver.calls = []
    driver.Error, driver.MemoryError, driver.LaunchError = Error, OutOfMemory, LaunchError
    driver.Device, driver.Context = Gpu, Context
    driver.init = lambda: None
    driver.failure = None

    def mem_alloc(nbytes: int) -> Allocation:
        if nbytes > 10**9:
            raise OutOfMemory("cuMemAlloc failed: out of memory")
        return Allocation(4096)

    def pagelocked_empty(nbytes: int, dtype: Any) -> np.ndarray:
        class Pages(np.ndarray):
            @property
            def base(self) -> Any:
                return Allocation(0)

        return np.zeros(nbytes, dtype).view(Pages)

    def load(binary: bytes) -> Any:
        if binary == b"other":
            raise Error("cuModuleLoadDataEx failed: device kernel image is invalid")
        return SimpleNamespace(get_function=lambda name: Function(name, driver.calls))

    def synchronize() -> None:
        if driver.failure:
            raise LogicError(driver.failure)
        driver.calls.append("wait")

    def note(name: str) -> Any:
        return lambda *arguments: driver.calls.append((name, *arguments[:-1]))

    driver.mem_alloc, driver.pagelocked_empty = mem_alloc, pagelocked_empty
    driver.module_from_buffer = load
    driver.get_driver_version = lambda: 12040
    driver.mem_get_info = lambda: (5 * 10**8, 141 * 10**9)
    driver.Stream = lambda: SimpleNamespace(synchronize=synchronize)
    for name in ("memcpy_htod_async", "memcpy_dtoh_async", "memcpy_dtod_async", "memset_d8_async"):
        setattr(driver, name, note(name))
    driver.function_attribute = SimpleNamespace(MAX_DYNAMIC_SHARED_SIZE_BYTES="most shared")
    return driver


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A pycuda that works."""
    made = make_driver()
    modules = {"pycuda": ModuleType("pycuda"), "pycuda.driver": made}
    monkeypatch.setattr(cuda_driver.importlib, "import_module", modules.__getitem__)
    monkeypatch.setattr(cuda, "_opened", {})
    monkeypatch.setattr(cuda_driver, "_started", set())
    monkeypatch.setattr(Gpu, "gpus", list(Gpu.gpus))
    yield made
    assert Context.pushed == 0


def missing(monkeypatch: pytest.MonkeyPatch, failing: str, error: Exception) -> None:
    """Importing a module fails."""

    def import_module(name: str) -> Any:
        if name == failing:
            raise error
        return ModuleType(name)

    monkeypatch.setattr(cuda_driver.importlib, "import_module", import_module)


NO_LIBCUDA = ImportError("libcuda.so.1: cannot open shared object file: No such file or directory")


def test_pycuda_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    missing(monkeypatch, "pycuda", ModuleNotFoundError("No module named 'pycuda'", name="pycuda"))
    with pytest.raises(DeviceError, match=r"^pycuda is not installed: pip install 'noeira\[cuda\]"):
        require_pycuda()


def test_pycuda_lacks_a_package(monkeypatch: pytest.MonkeyPatch) -> None:
    error = ModuleNotFoundError("No module named 'pytools'", name="pytools")
    missing(monkeypatch, "pycuda", error)
    with pytest.raises(DeviceError, match=r"imported \(No module named 'pytools'\): pip"):
        require_pycuda()


def test_the_driver_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    missing(monkeypatch, "pycuda.driver", NO_LIBCUDA)
    with pytest.raises(DeviceError, match=r"^there is no NVIDIA driver: libcuda\.so\.1 comes with"):
        require_pycuda()


def test_pycuda_was_built_for_another_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    missing(monkeypatch, "pycuda.driver", ImportError("undefined symbol: cuCtxCreate_v4"))
    with pytest.raises(DeviceError, match=r"for a newer NVIDIA driver \(undefined symbol"):
        require_pycuda()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            "cuInit failed: no CUDA-capable device is detected",
            "no NVIDIA GPU that it can use: look",
        ),
        ("cuInit failed: system not yet initialized", "the NVIDIA driver does not start: cuInit"),
    ],
)
def test_the_driver_does_not_start(driver: Any, words: str, message: str) -> None:
    def init() -> None:
        raise Error(words)

    driver.init = init
    with pytest.raises(DeviceError, match=message):
        open_cuda()
    cuda_driver._started.add(os.getpid() + 1)
    with pytest.raises(DeviceError, match="forked after its parent began to use it"):
        open_cuda()


def test_there_is_no_gpu(driver: Any) -> None:
    Gpu.gpus = []
    with pytest.raises(DeviceError, match="GPU that it can use: look at what nvidia-smi"):
        open_cuda()


def test_gpus_are_found_and_opened_once(driver: Any) -> None:
    found = [(gpu.number, gpu.name, gpu.arch, gpu.nbytes) for gpu in found_devices()]
    assert found == [
        (0, "NVIDIA H200", "sm_90", 141 * 10**9),
        (1, "NVIDIA T4", "sm_75", 141 * 10**9),
    ]
    assert open_cuda(1) is open_cuda(1)
    assert open_cuda(1).arch == "sm_75"
    with pytest.raises(DeviceError, match="there is no GPU 2: there are 2, from 0 on"):
        open_cuda(2)


def test_a_gpu_is_too_old(driver: Any) -> None:
    Gpu.gpus = [("Tesla V100", (7, 0))]
    with pytest.raises(DeviceError, match="Tesla V100 is sm_70; kernels are for sm_75 and newer"):
        open_cuda()


def test_kernels_are_for_another_gpu(driver: Any, tmp_path: Path) -> None:
    device, file = open_cuda(1), tmp_path / "unit.cubin"
    file.write_bytes(b"other")
    with pytest.raises(DeviceError, match="compiled for sm_90a; NVIDIA T4 is sm_75: compile them"):
        device.load(file, "sm_90a")
    for arch, words in (("sm_75", "were compiled for sm_75"), ("", "are for another arch")):
        with pytest.raises(DeviceError, match=f"cannot run the kernels in .*, which {words}"):
            device.load(file, arch)
    with pytest.raises(DeviceError, match=r"the driver is for CUDA 12\.4: if the compiler is of a"):
        device.load(file)


def test_memory_runs_out(driver: Any) -> None:
    device = open_cuda()
    with pytest.raises(DeviceMemoryError) as failure:
        Memory(device, 3 * 10**9)
    assert str(failure.value) == (
        "out of memory on NVIDIA H200: asked for 3.00 GB, 500.00 MB of 141.00 GB are free"
    )


def test_operations_go_to_one_stream(driver: Any, tmp_path: Path) -> None:
    device, array = open_cuda(), np.zeros(4, np.float32)
    with device.session():
        device.copy_in(64, array)
        device.copy_out(array, 64)
        device.copy(128, 64, 16)
        device.fill(64, 0, 16)
        device.synchronize()
    names = [call[0] if isinstance(call, tuple) else call for call in driver.calls]
    copies = ["memcpy_htod_async", "memcpy_dtoh_async", "memcpy_dtod_async", "memset_d8_async"]
    assert names == [*copies, "wait"]
    assert driver.calls[2][1:] == (128, 64, 16) and driver.calls[3][1:] == (64, 0, 16)
    file = tmp_path / "unit.cubin"
    file.write_bytes(b"a cubin")
    module = device.load(file, "sm_90")
    assert device.load(file) is module
    driver.calls.clear()
    arguments = (Argument("w", "workspace", 0, 0), Argument("%x", "input", 64, 16, 4))
    device.launcher(module, BoundLaunch("k00", 3, 256, 0, arguments))()
    device.launcher(module, BoundLaunch("k01", 3, 256, 65536, arguments))()
    sizes = (3, 1, 1), (256, 1, 1)
    assert driver.calls == [
        ("k00", "PP", *sizes, device.stream, 0, 64, 0),
        ("most shared", 65536),
        ("k01", "PP", *sizes, device.stream, 0, 64, 65536),
    ]


def test_what_fails_says_what_was_done(driver: Any, tmp_path: Path) -> None:
    device = open_cuda()
    driver.failure = "cuStreamSynchronize failed: an illegal memory access was encountered"
    with device.session(), pytest.raises(DeviceError) as failure:
        device.synchronize()
    assert str(failure.value) == (
        "running kernels failed on NVIDIA H200: cuStreamSynchronize failed: an illegal memory "
        "access was encountered; nothing more can be done on the GPU in this process. "
        "`noeira check MODEL` runs the kernels on the CPU and finds what they do wrong"
    )
    error = device.error(LaunchError("no"), "the launch of k00")
    assert isinstance(error, DeviceError) and "the launch of k00 failed on NVIDIA" in str(error)
    assert isinstance(device.error(KeyError("x"), "the launch of k00"), KeyError)


def test_memory_goes_back(driver: Any) -> None:
    device, before = open_cuda(), Allocation.freed
    memory, pinned = Memory(device, 100), Pinned(device, 100)
    assert memory.pointer == 4096 and pinned.array.nbytes == 100
    memory.close()
    del pinned
    assert Allocation.freed == before + 2


def test_the_context_is_given_back(driver: Any) -> None:
    device, before = open_cuda(), Context.detached
    cuda._opened.clear()
    del device
    assert Context.detached == before + 1


def test_after_a_fork(driver: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    device, before = open_cuda(), Allocation.freed
    memory = Memory(device, 100)
    monkeypatch.setattr(device, "process", os.getpid() + 1)
    for use in (open_cuda, lambda: device.session().__enter__()):
        with pytest.raises(DeviceError, match="start processes by 'spawn'"):
            use()
    memory.close()
    assert Allocation.freed == before


def cuda_lines() -> list[str]:
    """What the doctor says of CUDA."""
    return [str(finding) for finding in doctor.cuda()]


def test_the_doctor_finds_gpus(driver: Any) -> None:
    lines = [line for line in cuda_lines() if line.startswith("ok  GPU")]
    assert [" ".join(line.split()) for line in lines] == [
        "ok GPU 0 NVIDIA H200, sm_90, 141.00 GB",
        "ok GPU 1 NVIDIA T4, sm_75, 141.00 GB",
    ]


def test_the_doctor_says_what_is_too_old(driver: Any) -> None:
    Gpu.gpus = [("Tesla V100", (7, 0))]
    text = "\n".join(cuda_lines())
    assert "--  GPU 0         Tesla V100, sm_70, 141.00 GB: older than sm_75" in text


def test_the_doctor_tells_apart_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    missing(monkeypatch, "pycuda.driver", NO_LIBCUDA)
    text = "\n".join(cuda_lines())
    assert (
        "--  NVIDIA driver there is no NVIDIA driver" in text
        and "ok  pycuda" in text
        and "!!" not in text
    )
    missing(monkeypatch, "pycuda", ModuleNotFoundError("No module named 'pycuda'", name="pycuda"))
    text = "\n".join(cuda_lines())
    assert (
        "--  pycuda        pycuda is not installed" in text and "pip install 'noeira[cuda]'" in text
    )
    assert "!!" not in text
