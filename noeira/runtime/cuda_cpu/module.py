"""CUDA kernels run on the CPU: a built unit loaded, its kernels launched, their faults raised."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from noeira.errors import DeviceError, KernelFault
from noeira.runtime.cuda_cpu.debug_lines import Library, Row, line_at

if TYPE_CHECKING:
    from ctypes import Array, c_ubyte

ORDERS = ("forward", "reverse", "random")
MESSAGE_BYTES = 16384
MOST_ARGUMENTS = 4096
# As the runtime has them.
INITIALISED, WRITABLE, SHARED = 1, 2, 4
Size = int | tuple[int, ...]


@dataclass(frozen=True)
class Region:
    """Global memory that a kernel may touch in check mode: `nbytes` from the address `pointer`.

    initialised: all of it may be read before the kernel writes it. writable: the kernel may write
    it. granule: the bytes that are written together, at least those of one element; `written` has
    one byte for each, 1 once it was written, from launch to launch.
    """

    pointer: int
    nbytes: int
    name: str
    initialised: bool = True
    writable: bool = True
    granule: int = 4
    written: Array[c_ubyte] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        import ctypes

        count = -(-self.nbytes // self.granule)
        object.__setattr__(self, "written", (ctypes.c_ubyte * max(1, count))())

    def never_written(self) -> list[range]:
        """The granules that no launch has written, as ranges."""
        import numpy as np

        count = -(-self.nbytes // self.granule)
        missing = np.frombuffer(memoryview(self.written), np.uint8, count) == 0
        edges = np.flatnonzero(np.diff(missing, prepend=False, append=False))
        return [range(a, b) for a, b in edges.reshape(-1, 2).tolist()]


class CudaCpuModule:
    """A library that `shared_library.build` made, loaded for the life of the process. Any thread
    may launch; one launch of a unit runs at a time.
    """

    def __init__(self, path: Path | str, name: str = "unit.cu") -> None:
        """Load the library; `name` is the one that it was built with. Raises DeviceError if the
        system refuses.
        """
        import ctypes

        self.path, self.name = Path(path), Path(name).name
        self._entries = dict[tuple[str, int], Callable[..., int]]()
        try:
            self._library = ctypes.CDLL(str(self.path))
        except OSError as error:
            raise DeviceError(f"the library {path} cannot be loaded: {error}") from None

    def launch(
        self,
        name: str,
        grid: Size,
        block: Size,
        shared: int,
        pointers: Sequence[int | None],
        order: str = "forward",
        seed: int = 0,
        regions: Sequence[Region] | None = None,
    ) -> None:
        """Run a kernel whose arguments are all pointers (None for NULL), to its end.

        grid, block: blocks, and threads a block, in up to three dimensions; shared: bytes of
        dynamic shared memory. order: "forward", "reverse" or, by `seed`, "random". regions: all
        global memory that it may touch (None: any); only a unit built in check mode looks. Raises
        DeviceError for a kernel that the unit lacks or a size that no GPU takes, and KernelFault
        for what the kernel does wrong.
        """
        from ctypes import addressof, c_int, c_uint, c_void_p, create_string_buffer

        values = (c_void_p * max(1, len(pointers)))(*pointers)
        places = [addressof(values) + 8 * i for i in range(len(pointers))]
        arguments = (c_void_p * max(1, len(pointers)))(*places)
        sizes = (c_uint * 6)(*_three(grid), *_three(block))
        options = (c_int * 3)(ORDERS.index(order), seed, int(self.checks))
        message = create_string_buffer(MESSAGE_BYTES)
        launch = self._entry(name, len(pointers))
        # Held until the launch is over.
        described = self._describe(regions) if self.checks else None
        status = launch(arguments, sizes, shared, options, message, MESSAGE_BYTES)
        del described
        if status != 0:
            raise self._error(name, message.value.decode("utf-8", "replace"))

    @cached_property
    def checks(self) -> bool:
        """Whether the unit was built in check mode."""
        return hasattr(self._library, "noeira_checked")

    def _entry(self, name: str, count: int) -> Callable[..., int]:
        """The function that launches a kernel. Raises DeviceError if the unit has none of that
        name and number of arguments.
        """
        known = self._entries.get((name, count))
        if known is not None:
            return known
        from ctypes import POINTER, c_char_p, c_int, c_size_t, c_uint, c_void_p

        try:
            launch, layout = self._library[f"{name}__launch"], self._library[f"{name}__layout"]
        except AttributeError:
            raise DeviceError(
                f'there is no kernel {name} in {self.path}: a kernel is extern "C" __global__'
            ) from None
        layout.argtypes, layout.restype = [POINTER(c_uint)], c_int
        expected = layout((c_uint * MOST_ARGUMENTS)())
        if expected != count:
            raise DeviceError(f"the kernel {name} has {expected} arguments, not {count}")
        launch.argtypes = [
            POINTER(c_void_p), POINTER(c_uint), c_size_t, POINTER(c_int), c_char_p, c_size_t
        ]  # fmt: skip
        launch.restype = c_int
        self._entries[name, count] = launch
        return launch

    def _describe(self, regions: Sequence[Region] | None) -> object:
        """Tell the unit what the next launch of this thread may touch; gives what must be kept
        until that is over.
        """
        from ctypes import POINTER, addressof, c_int

        function = self._library.noeira_regions
        function.argtypes, function.restype = [POINTER(_described()), c_int], None
        if regions is None:
            function(None, -1)
            return None
        array = (_described() * (len(regions) + len(self._shared) or 1))()
        for item, region in zip(array, regions, strict=False):
            flags = INITIALISED * region.initialised | WRITABLE * region.writable
            written, name = addressof(region.written), region.name.encode()
            item.fill(region.pointer, region.nbytes, name, written, region.granule, flags)
        for item, (name, address, nbytes) in zip(array[len(regions) :], self._shared, strict=False):
            item.fill(address, nbytes, name, None, 1, WRITABLE | SHARED)
        function(array, len(regions) + len(self._shared))
        return array, regions

    @cached_property
    def _tables(self) -> Library:
        """What the unit's file tells of its variables and lines."""
        return Library(self.path)

    @cached_property
    def _shared(self) -> list[tuple[bytes, int, int]]:
        """Name, address and bytes of every shared array that a kernel declares with its size."""
        from ctypes import addressof, c_char

        anchor = self._tables.symbol("noeira_checked")
        if anchor is None:
            return []
        start = addressof(c_char.in_dll(self._library, "noeira_checked")) - anchor
        return [
            (_plain_name(variable.symbol).encode(), start + variable.offset, variable.nbytes)
            for variable in self._tables.variables("noeira_shared")
        ]

    @cached_property
    def _rows(self) -> list[Row]:
        return self._tables.rows()

    def _line(self, place: str) -> int | None:
        """The line that the text of a message's place stands for: `line 12` or `{0x1f2e}`."""
        if place.startswith("line"):
            return int(place.split()[1])
        # An address that a call returns to: the call is before it.
        return line_at(self._rows, int(place[1:-1], 16) - 1, self.name)

    def _error(self, kernel: str, message: str) -> DeviceError:
        """The error for a launch's message."""
        faults = list[KernelFault]()
        for match in _FAULT.finditer(message):
            text = _PLACE.sub(lambda place: _line_words(self._line(place[0])), match["text"])
            line, block, thread = self._line(match["place"]), match["block"], match["thread"]
            faults.append(KernelFault(match["kind"], kernel, int(block), int(thread), line, text))
        if not faults:
            return DeviceError(f"{kernel} cannot be launched: {message}")
        return faults[0].followed_by(faults[1:])


_PLACE = re.compile(r"\{0x[0-9a-f]+\}")
_FAULT = re.compile(
    r"^(?P<kind>[\w -]+) at (?P<place>line \d+|\{0x[0-9a-f]+\}), "
    r"block (?P<block>\d+), thread (?P<thread>\d+): (?P<text>.*)$",
    re.MULTILINE,
)


def _line_words(line: int | None) -> str:
    return "an unknown line" if line is None else f"line {line}"


def _plain_name(symbol: str) -> str:
    """The variable's own name in a compiler's one: `tile` of `_ZZ4gemmE4tile`, `gemm.tile`, …."""
    if symbol.startswith("_Z"):
        names = re.findall(r"(?=(?<!\d)(\d+)([A-Za-z_]\w*))", symbol)
        fitting = [text[: int(length)] for length, text in names if len(text) >= int(length)]
        return fitting[-1] if fitting else symbol
    return next((part for part in reversed(symbol.split(".")) if not part.isdecimal()), symbol)


@cache
def _described() -> Any:
    """The structure that a unit's `noeira_regions` takes."""
    from ctypes import Structure, c_char_p, c_size_t, c_uint, c_void_p

    class Described(Structure):
        _fields_ = (
            ("pointer", c_void_p),
            ("bytes", c_size_t),
            ("name", c_char_p),
            ("written", c_void_p),
            ("granule", c_uint),
            ("flags", c_uint),
        )

        def fill(self, *values: object) -> None:
            """Set all fields, in their order."""
            for description, value in zip(self._fields_, values, strict=True):
                setattr(self, description[0], value)

    return Described


def _three(size: Size) -> tuple[int, int, int]:
    """A size in three dimensions."""
    x, y, z = (*((size,) if isinstance(size, int) else size), 1, 1, 1)[:3]
    return x, y, z
