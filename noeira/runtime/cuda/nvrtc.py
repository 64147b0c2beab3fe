"""NVRTC, NVIDIA's compiler as a library: found, bound, and run without a driver or a GPU."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from noeira.disk import children
from noeira.errors import CompilerError
from noeira.runtime.build.process import run
from noeira.runtime.cuda.toolkit import newest_first, toolkits, wheel_folders
from noeira.runtime.fork import Lock

# `libnvrtc.so.13`, but not `libnvrtc.alt.so.13`, which was built in another way.
LIBRARY = re.compile(r"libnvrtc\.so(?:\.[\d.]+)?")
BUILTINS = re.compile(r"libnvrtc-builtins\.so\.[\d.]+")
STANDARD = (
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib64",
    "/usr/lib",
)
LDCONFIG_SECONDS = 20


@dataclass(frozen=True)
class Output:
    """What one run of a compiler gave; `failure` says how it ended if not well, else it is ""."""

    cubin: bytes
    ptx: str
    log: str
    failure: str = ""


@dataclass(frozen=True)
class Nvrtc:
    """The library NVRTC at a path, the library of builtins that it needs, and what it knows."""

    library: str
    builtins: str
    version: str
    archs: tuple[str, ...]
    name = "nvrtc"

    def run(self, text: str, file_name: str, flags: Sequence[str], folder: Path) -> Output:
        """Compile a text to machine code and PTX; nothing is written into the folder.

        Other threads of Python run meanwhile. Raises CompilerError only if the library itself is
        broken: what it says of the text is in the output.
        """
        import ctypes

        api = load(self.library, self.builtins)
        words = (ctypes.c_char_p * len(flags))(*(flag.encode() for flag in flags))
        with program(api, text, file_name) as handle:
            status = api.nvrtcCompileProgram(handle, len(flags), words)
            log = fetch(api, handle, "ProgramLog").rstrip(b"\0").decode("utf-8", "replace")
            if status:
                # Of a text that only the assembler refused there is PTX; else this is empty.
                ptx = fetch(api, handle, "PTX").rstrip(b"\0").decode("utf-8", "replace")
                return Output(b"", ptx, log, said(api, status))
            ptx = fetch(api, handle, "PTX").rstrip(b"\0").decode("utf-8", "replace")
            return Output(fetch(api, handle, "CUBIN"), ptx, log)


def find_libraries() -> Iterator[Path]:
    """Every library NVRTC that there is: in Python's packages, in toolkits, where the system looks;
    the newest first in each folder.
    """
    seen = set[str]()
    for folder in library_folders():
        for path in newest_first([p for p in children(folder) if LIBRARY.fullmatch(p.name)]):
            real = os.path.realpath(path)
            if real not in seen:
                seen.add(real)
                yield Path(real)


def library_folders() -> Iterator[Path]:
    """The folders to look in, those that take a program to find out last."""
    for folder in wheel_folders():
        yield folder / "lib"
    for text in os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep):
        if text:
            yield Path(text)
    for folder in toolkits():
        yield from (folder / "lib64", folder / "lib")
        yield from (target / "lib" for target in children(folder / "targets"))
    yield from map(Path, STANDARD)
    try:
        _, text = run(("/sbin/ldconfig", "-p"), Path("/"), LDCONFIG_SECONDS)
    except CompilerError:
        return
    for path in re.findall(r"=> (/\S*/libnvrtc\.so\S*)$", text, flags=re.MULTILINE):
        yield Path(path).parent


def builtins_of(library: Path) -> Path:
    """The library of builtins beside a library NVRTC. Raises CompilerError if there is none."""
    found = [path for path in children(library.parent) if BUILTINS.fullmatch(path.name)]
    if not found:
        raise CompilerError(
            f"{library} is of no use without libnvrtc-builtins, which is not beside it: install "
            "it again, pip install --force-reinstall nvidia-cuda-nvrtc"
        )
    return newest_first(found)[0]


def open_nvrtc(library: Path) -> Nvrtc:
    """The library at a path, asked for its version and architectures. Raises CompilerError if it
    cannot be loaded or is too old to make machine code.
    """
    import ctypes

    builtins = builtins_of(library)
    api = load(str(library), str(builtins))
    major, minor, count = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
    check(api, api.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor)))
    check(api, api.nvrtcGetNumSupportedArchs(ctypes.byref(count)))
    numbers = (ctypes.c_int * count.value)()
    check(api, api.nvrtcGetSupportedArchs(numbers))
    archs = tuple(f"sm_{number}" for number in sorted(numbers))
    return Nvrtc(str(library), str(builtins), f"NVRTC {major.value}.{minor.value}", archs)


# Libraries stay loaded for the life of the process.
_loaded: dict[str, Any] = {}
_mutex = Lock()


def load(library: str, builtins: str) -> Any:
    """The loaded library, the types of all arguments set. Raises CompilerError."""
    import ctypes

    with _mutex:
        if library not in _loaded:
            try:
                # It looks for this one by name, and finds it once it is loaded.
                ctypes.CDLL(builtins)
                _loaded[library] = bind(ctypes.CDLL(library))
            except OSError as error:
                raise CompilerError(f"{library} cannot be loaded: {error}") from None
            except AttributeError as error:
                raise CompilerError(
                    f"{library} is too old: it makes no machine code ({error}). CUDA 11.2 is the "
                    "first that does"
                ) from None
        return _loaded[library]


def bind(api: Any) -> Any:
    """The library with the types of its functions. Raises AttributeError if one is missing."""
    from ctypes import POINTER, c_char_p, c_int, c_size_t, c_void_p

    number, texts = POINTER(c_int), POINTER(c_char_p)
    arguments = {
        "nvrtcVersion": (number, number),
        "nvrtcGetNumSupportedArchs": (number,),
        "nvrtcGetSupportedArchs": (number,),
        "nvrtcCreateProgram": (POINTER(c_void_p), c_char_p, c_char_p, c_int, texts, texts),
        "nvrtcCompileProgram": (c_void_p, c_int, texts),
        "nvrtcDestroyProgram": (POINTER(c_void_p),),
    }
    for what in ("ProgramLog", "PTX", "CUBIN"):
        arguments[f"nvrtcGet{what}Size"] = (c_void_p, POINTER(c_size_t))
        arguments[f"nvrtcGet{what}"] = (c_void_p, c_char_p)
    for name, types in arguments.items():
        function = getattr(api, name)
        function.argtypes, function.restype = types, c_int
    api.nvrtcGetErrorString.argtypes, api.nvrtcGetErrorString.restype = (c_int,), c_char_p
    return api


@contextmanager
def program(api: Any, text: str, file_name: str) -> Iterator[Any]:
    """A program of one text, released at the end. Raises CompilerError."""
    import ctypes

    handle = ctypes.c_void_p()
    created = api.nvrtcCreateProgram(
        ctypes.byref(handle), text.encode(), file_name.encode(), 0, None, None
    )
    check(api, created)
    try:
        yield handle
    finally:
        api.nvrtcDestroyProgram(ctypes.byref(handle))


def fetch(api: Any, handle: Any, what: str) -> bytes:
    """The log, the PTX or the machine code of a program. Raises CompilerError."""
    import ctypes

    size = ctypes.c_size_t()
    check(api, getattr(api, f"nvrtcGet{what}Size")(handle, ctypes.byref(size)))
    buffer = ctypes.create_string_buffer(size.value)
    if size.value:
        check(api, getattr(api, f"nvrtcGet{what}")(handle, buffer))
    return buffer.raw


def check(api: Any, status: int) -> None:
    """Raises CompilerError for a status that is not success."""
    if status:
        raise CompilerError(f"NVRTC: {said(api, status)}")


def said(api: Any, status: int) -> str:
    """The library's own name of a status."""
    return api.nvrtcGetErrorString(status).decode()
