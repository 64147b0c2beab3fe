"""What this machine can do at best: multiply-adds a second, and bytes a second from each level of
memory, measured in less than a second.

A launch can take no less time than its arithmetic at the peak, nor than its bytes at the bandwidth
of where they lie: `Limits.floor_seconds`.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from noeira.ir.types import TensorType
from noeira.machine.cache_sizes import Level, cache_levels
from noeira.runtime.store import aligned_zeros
from noeira.runtime.threads import processor_count

if TYPE_CHECKING:
    from ctypes import CDLL

    from noeira.codegen.c.isa import ISA
    from noeira.runtime.build.cache import Cache
    from noeira.runtime.c.compiler import Compiler

# Everything is measured so often, some 20 measurements one after the other, so that what disturbs
# one of them has passed by the next time; the best round of all counts.
PASSES, SECONDS = 3, 0.006
# Bytes that a thread moves, and multiply-adds in a chain, in one round: so many that waiting for
# others at each end does not matter.
ROUND_BYTES = 1 << 21
ROUND_STEPS = 20_000
ROUND_CALLS = 100
# Bytes that each thread reads of another's: about what its second cache holds.
EXCHANGED = 1 << 18
# Memory is measured over as many times the largest cache, within these bounds.
BEYOND_CACHES = 4
LEAST_MEMORY, MOST_MEMORY = 64 << 20, 512 << 20
# Independent sums of multiply-adds: more than a unit has in flight, fewer than registers.
CHAINS = {16: 12, 32: 24}
# Both halves of a thread's part are whole rounds of the copying loop, of 8 vectors.
PART_MULTIPLE = 1024
MOVES = ("READ", "COPY", "MEMCPY")
ACTIONS = (*MOVES, "PEAK_F32", "PEAK_F64", "EXCHANGE")


@dataclass(frozen=True)
class Bandwidth:
    """GB/s (1e9 bytes a second) of all threads together from one level of memory.

    level: `L1`, `L2`, `L3` or `memory`. bytes: the largest working set, of all threads together,
    that it holds. read: reading alone. copy: bytes read and bytes written, as many of each, both
    counted.
    """

    level: str
    bytes: int
    read: float
    copy: float

    def seconds(self, read: float, written: float) -> float:
        """Seconds to move so many bytes: on the line through reading alone and copying, and no
        faster than copying if most is written.
        """
        paired = min(read, written)
        return (read - paired) / (1e9 * self.read) + (written + paired) / (1e9 * self.copy)


@dataclass(frozen=True)
class Limits:
    """What `threads` threads can do at best, for one kind of vector unit (`isa`).

    peak: GF/s (1e9 floating-point operations a second; a multiply-add is two) by dtype, `f32` and
    `f64`. bandwidths: of each level of memory, the fastest first. handover: seconds
    to hand a call to all threads and wait for them, which each launch whose work they share takes
    beside that. exchange: GB/s of all threads together, each reading what another has just written
    and has in its own cache.
    """

    isa: str
    threads: int
    peak: dict[str, float]
    bandwidths: tuple[Bandwidth, ...]
    handover: float
    exchange: float

    def bandwidth(self, working_set: float) -> Bandwidth:
        """Of the first level that holds a working set of so many bytes; else of memory."""
        fitting = (found for found in self.bandwidths if working_set <= found.bytes)
        return next(fitting, self.bandwidths[-1])

    def arithmetic_seconds(self, flops: float, dtype: str = "f32") -> float:
        """Seconds for so many operations at the peak of a dtype; other dtypes count as f32."""
        return flops / (1e9 * self.peak.get(dtype, self.peak["f32"]))

    def floor_seconds(
        self,
        flops: float,
        read: float,
        written: float = 0.0,
        *,
        dtype: str = "f32",
        working_set: float | None = None,
    ) -> float:
        """The least seconds for arithmetic and traffic that overlap perfectly.

        read, written: bytes. working_set: bytes touched before the same ones are touched again,
        which decides the level they come from; by default what is moved here.
        """
        lies = read + written if working_set is None else working_set
        moving = self.bandwidth(lies).seconds(read, written)
        return max(self.arithmetic_seconds(flops, dtype), moving)


def measure_limits(threads: int, isa: ISA | None = None) -> Limits:
    """Measure this machine with so many threads, in less than a second once the unit is built.

    isa: the kind of vector unit to measure, by default the widest that the compiler builds for.
    More threads than processors do no more than one each; a compiler without threads has one. Other
    processes that run at the same time make all of it smaller. Raises CompilerError without a C
    compiler.
    """
    from noeira.runtime.build.cache import open_cache
    from noeira.runtime.c.compiler import require_compiler

    cache = open_cache()
    compiler = require_compiler(cache)
    isa = isa or compiler.isa
    library = limits_library(isa, compiler, cache)
    threads = min(threads, processor_count()) if compiler.has_threads else 1
    levels = cache_levels(threads)
    largest = min(max(BEYOND_CACHES * levels[-1].bytes, LEAST_MEMORY), MOST_MEMORY)
    measure = Measurement(library, threads, isa, levels, largest)
    return best([measure.limits() for _ in range(PASSES)])


def best(found: Sequence[Limits]) -> Limits:
    """The best of each number; the middle one of what needs several threads at a time: those that
    share a processor for a while seem to exchange at the speed of its own cache, and a call that
    the workers miss seems to cost nothing.
    """
    peak = {dtype: max(one.peak[dtype] for one in found) for dtype in found[0].peak}
    bandwidths = tuple(
        replace(same[0], read=max(b.read for b in same), copy=max(b.copy for b in same))
        for same in zip(*(one.bandwidths for one in found), strict=True)
    )
    handover = sorted(one.handover for one in found)[len(found) // 2]
    exchange = sorted(one.exchange for one in found)[len(found) // 2]
    return Limits(
        found[0].isa, found[0].threads, peak, bandwidths, handover=handover, exchange=exchange
    )


def middle(smaller: int, larger: int) -> int:
    """A working set that the larger cache has easily room for, and the smaller one has not."""
    return math.isqrt(smaller * larger) if smaller else larger // 2


def physical_memory() -> int:
    """Bytes of the machine's memory; where the system does not tell, more than there can be."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return sys.maxsize


class Measurement:
    """The built unit, and `size` bytes of memory that its threads share out among themselves."""

    def __init__(
        self, library: CDLL, threads: int, isa: ISA, levels: Sequence[Level], size: int
    ) -> None:
        import ctypes

        self.threads, self.isa, self.levels, self.size = threads, isa, levels, size
        self.memory = aligned_zeros(TensorType("u8", (size,)))
        self.function: Any = library.noeira_limit
        self.function.argtypes = [
            ctypes.c_int,
            ctypes.c_int,
            ctypes.c_void_p,
            ctypes.c_long,
            ctypes.c_long,
            ctypes.c_double,
        ]
        self.function.restype = ctypes.c_double
        self.calls: Any = library.noeira_handover
        self.calls.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_double]
        self.calls.restype = ctypes.c_double

    def seconds(self, action: str, part: int, times: int) -> float:
        """Seconds of the fastest round: each thread acts so often, on `part` bytes of its own."""
        number = ACTIONS.index(action)
        address = self.memory.ctypes.data
        return 1e-9 * self.function(number, self.threads, address, part, times, SECONDS)

    def limits(self) -> Limits:
        """Everything, once."""
        peak = {dtype: self.peak(dtype) for dtype in ("f32", "f64")}
        smaller, found = 0, list[Bandwidth]()
        for level in self.levels:
            size = middle(smaller, level.bytes)
            found.append(self.bandwidth(level.name, level.bytes, size))
            smaller = level.bytes
        found.append(self.bandwidth("memory", physical_memory(), self.size))
        return Limits(
            self.isa.name,
            self.threads,
            peak,
            tuple(found),
            handover=self.handover(),
            exchange=self.exchange(),
        )

    def handover(self) -> float:
        """Seconds to hand a call to all threads, as programs do, and wait for them."""
        return 1e-9 * self.calls(self.threads, ROUND_CALLS, SECONDS) / ROUND_CALLS

    def exchange(self) -> float:
        """GB/s of what other threads wrote, as much as their own caches hold."""
        return 1e-9 * EXCHANGED * self.threads / self.seconds("EXCHANGE", EXCHANGED, 1)

    def peak(self, dtype: str) -> float:
        """GF/s of multiply-adds."""
        lanes = self.isa.lanes(dtype)
        flops = 2 * CHAINS[self.isa.registers] * lanes * ROUND_STEPS * self.threads
        return 1e-9 * flops / self.seconds(f"PEAK_{dtype.upper()}", 0, ROUND_STEPS)

    def bandwidth(self, level: str, capacity: int, working_set: int) -> Bandwidth:
        """Of a level, measured over a working set of so many bytes."""
        part = max(working_set // self.threads // PART_MULTIPLE, 1) * PART_MULTIPLE
        times = -(-ROUND_BYTES // part)
        moved = 1e-9 * part * times * self.threads
        read, *copies = (moved / self.seconds(action, part, times) for action in MOVES)
        return Bandwidth(level, capacity, read, max(copies))


def limits_library(isa: ISA, compiler: Compiler, cache: Cache) -> CDLL:
    """The built unit that measures this kind of vector unit."""
    from noeira.codegen.c.prelude import prelude
    from noeira.codegen.definitions import identifiers
    from noeira.codegen.environment import template
    from noeira.codegen.language import C
    from noeira.codegen.source import Source
    from noeira.runtime.build.library import load
    from noeira.runtime.c.toolchain import CToolchain

    given = {"isa": isa, "chains": CHAINS[isa.registers], "actions": ACTIONS}
    body = template("c/unit/limits.c.j2").render(prelude="", **given)
    text = template("c/unit/limits.c.j2").render(prelude=prelude(isa, identifiers(body)), **given)
    return load(CToolchain(compiler, cache).build(Source(C, "limits", text, "")))
