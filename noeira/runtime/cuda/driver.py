"""NVIDIA's driver through pycuda, which is imported here alone, when asked for: what is missing
where it does not start, and the GPUs it has.
"""

from __future__ import annotations

import importlib
import os
from dataclasses import dataclass
from typing import Any

from noeira.codegen.cuda.arch import arch_name
from noeira.errors import DeviceError, MissingError

PYCUDA_ADVICE = "pip install 'noeira[cuda]'; where its build fails, see docs/cuda.md"
DRIVER_ADVICE = (
    "libcuda.so.1 comes with the driver: install it, or use target='cuda-cpu', which needs no GPU"
)
GPU_ADVICE = "look at what nvidia-smi and CUDA_VISIBLE_DEVICES say; target='cuda-cpu' needs no GPU"
NEWER_BUILD = (
    "install a newer driver, or build pycuda with the headers of the driver's CUDA version; see "
    "docs/cuda.md"
)
FORKED = (
    "CUDA does not work in a process that was forked after its parent began to use it: start "
    "processes by 'spawn', or fork before the first call"
)
# The processes in which the driver started: this one, and those it was forked from.
_started = set[int]()


@dataclass(frozen=True)
class Found:
    """A GPU: its number, name, architecture such as `sm_90`, and bytes of memory."""

    number: int
    name: str
    arch: str
    nbytes: int


def require_pycuda() -> Any:
    """`pycuda.driver`, initialised. Raises MissingError that says which is missing: pycuda, the
    driver, or a GPU.
    """
    no_gpu = MissingError("GPU", "there is a driver, but no NVIDIA GPU that it can use", GPU_ADVICE)
    try:
        importlib.import_module("pycuda")
        driver = importlib.import_module("pycuda.driver")
    except ImportError as error:
        raise import_failure(error) from None
    try:
        driver.init()
        count = driver.Device.count()
    except driver.Error as error:
        if _started - {os.getpid()}:
            raise DeviceError(FORKED) from None
        if "no CUDA-capable device" in str(error):
            raise no_gpu from None
        text = f"the NVIDIA driver does not start: {words(error)}"
        raise MissingError("NVIDIA driver", text, "look at what nvidia-smi says") from None
    _started.add(os.getpid())
    if not count:
        raise no_gpu
    return driver


def import_failure(error: ImportError) -> MissingError:
    """What is missing when pycuda cannot be imported."""
    if error.name == "pycuda":
        return MissingError("pycuda", "pycuda is not installed", PYCUDA_ADVICE)
    if "undefined symbol: cu" in str(error):
        text = f"pycuda was built for a newer NVIDIA driver ({words(error)})"
        return MissingError("NVIDIA driver", text, NEWER_BUILD)
    if "libcuda" in str(error) or "nvcuda" in str(error):
        return MissingError("NVIDIA driver", "there is no NVIDIA driver", DRIVER_ADVICE)
    return MissingError("pycuda", f"pycuda cannot be imported ({words(error)})", PYCUDA_ADVICE)


def words(error: Exception) -> str:
    """What a pycuda error says, on one line, without the dash before a log that is empty."""
    return " ".join(str(error).split()).removesuffix(" -")


def found_devices() -> list[Found]:
    """Every GPU that the driver has. Raises MissingError as require_pycuda."""
    driver = require_pycuda()
    found = list[Found]()
    for number in range(driver.Device.count()):
        device = driver.Device(number)
        arch = arch_name(device.compute_capability())
        found.append(Found(number, device.name(), arch, device.total_memory()))
    return found
