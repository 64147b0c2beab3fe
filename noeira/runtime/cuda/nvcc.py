"""nvcc, NVIDIA's compiler as a program: what is used where there is no NVRTC."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from noeira.errors import CompilerError
from noeira.runtime.build.compiler_search import which
from noeira.runtime.build.process import BUILD_SECONDS, first_lines, run, run_all
from noeira.runtime.cuda.nvrtc import Output
from noeira.runtime.cuda.toolkit import toolkit_of, toolkits

ASK_SECONDS = 60
# What else decides what it makes of a text.
ENVIRONMENT = ("NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS", "NVCC_CCBIN", "CPATH")
PROBE_TEXT = 'extern "C" __global__ void probe(float *y) { y[threadIdx.x] = 1.0f; }\n'


@dataclass(frozen=True)
class Nvcc:
    """The program nvcc at a path, and what it knows."""

    program: str
    version: str
    archs: tuple[str, ...]
    name = "nvcc"

    def run(self, text: str, file_name: str, flags: Sequence[str], folder: Path) -> Output:
        """Compile a text to machine code and PTX, writing into the folder. Raises CompilerError if
        the program does not start or hangs: what it says of the text is in the output.
        """
        (folder / file_name).write_text(text, encoding="utf-8")
        stem = Path(file_name).stem
        # The PTX on the way to the machine code is one of the files that it else removes.
        kept = ("--keep", "--keep-dir", ".", "-cubin", "-o", f"{stem}.cubin", file_name)
        status, log = run((self.program, *flags, *kept), folder, BUILD_SECONDS)
        ptx, cubin = folder / f"{stem}.ptx", folder / f"{stem}.cubin"
        made = ptx.read_text(encoding="utf-8") if ptx.is_file() else ""
        if status or not cubin.is_file():
            return Output(b"", made, log, f"nvcc ended with status {status}")
        return Output(cubin.read_bytes(), made, log)


def find_nvcc() -> str | None:
    """The path of nvcc itself, not of a script that calls it: on PATH, else in a toolkit."""
    program = which("nvcc")
    if program is not None:
        folder = toolkit_of(program)
        real = None if folder is None else folder / "bin" / "nvcc"
        return str(real) if real is not None and real.is_file() else os.path.abspath(program)
    places = (folder / "bin" / "nvcc" for folder in toolkits())
    return next((str(path) for path in places if os.access(path, os.X_OK)), None)


def open_nvcc(program: str, folder: Path) -> Nvcc:
    """The program at a path, asked for its version and architectures, and tried in a folder.

    Raises CompilerError if it builds nothing: it needs a C++ compiler of the system for that.
    """
    asked = [(program, "--version"), (program, "--list-gpu-code")]
    (_, version), (status, listed) = run_all(asked, folder, ASK_SECONDS)
    archs = re.findall(r"^(sm_\d+)$", listed, flags=re.MULTILINE)
    if status or not archs:
        raise CompilerError(
            f"{program} lists no architectures: {first_lines(listed, 5) or f'status {status}'}"
        )
    number = re.search(r"\bV(\d+[.\d]*)", version)
    nvcc = Nvcc(program, f"nvcc {number[1] if number else 'of unknown version'}", by_number(archs))
    output = nvcc.run(PROBE_TEXT, "probe.cu", (f"--gpu-architecture={nvcc.archs[0]}",), folder)
    if output.failure:
        raise CompilerError(
            f"{program} does not compile: {first_lines(output.log, 5) or output.failure}. It needs "
            "a C++ compiler, such as g++, and headers of CUDA"
        )
    return nvcc


def by_number(names: Sequence[str]) -> tuple[str, ...]:
    """Names such as sm_90 and sm_100, by number."""
    return tuple(sorted(set(names), key=lambda name: int(name.removeprefix("sm_"))))
