"""The kinds of GPU that CUDA is generated for: what a multiprocessor of each has, and how many
blocks of a kernel fit on one.

The numbers are those of the tables "Technical specifications per compute capability" in the CUDA
C++ Programming Guide, appendix "Compute Capabilities", and of the architecture tuning guides.
"""

from __future__ import annotations

from dataclasses import dataclass

from noeira.errors import DeviceError
from noeira.ir.types import DTYPE_BYTES

WARP = 32
# What a thread reads or writes at a time, at most.
ACCESS_BYTES = 16
# Blocks of a one-dimensional grid, and threads of a block: the same on all of them.
GRID = 2**31 - 1
THREADS_PER_BLOCK = 1024


@dataclass(frozen=True)
class Occupancy:
    """How much of a multiprocessor one kernel keeps busy.

    blocks, warps: resident at a time; fraction: of the warps that there is room for; limit: what
    keeps another block out: `registers`, `shared memory`, `threads` or `blocks`.
    """

    blocks: int
    warps: int
    fraction: float
    limit: str


@dataclass(frozen=True)
class Arch:
    """One kind of GPU. Sizes of memory are bytes, registers have 4 bytes.

    capability: major and minor number; product: a usual card of this kind, and multiprocessors
    how many that has; threads, warps, blocks, registers, shared: of one multiprocessor, at most;
    thread_registers: of one thread, at most; block_registers: of one block, at most; block_shared:
    of one block without asking for more; most_shared: of one block that asks; shared_unit:
    what a block's shared memory is rounded up to; reserved_shared: what the system takes of it for
    each block; register_unit: what the registers of a warp are rounded up to; warp_unit: warps that
    share a quarter of the registers go in groups of so many; grid: blocks in x.
    """

    name: str
    capability: tuple[int, int]
    product: str
    multiprocessors: int
    threads: int
    warps: int
    blocks: int
    shared: int
    most_shared: int
    shared_unit: int
    reserved_shared: int
    registers: int = 65536
    block_registers: int = 65536
    thread_registers: int = 255
    register_unit: int = 256
    warp_unit: int = 4
    block_shared: int = 48 * 1024
    block_threads: int = THREADS_PER_BLOCK
    grid: int = GRID

    def lanes(self, dtype: str) -> int:
        """Elements of one access."""
        return ACCESS_BYTES // DTYPE_BYTES[dtype]

    def runs_on(self, capability: tuple[int, int]) -> bool:
        """Whether machine code for this one runs on a device: only within a major number, upwards.

        PTX runs on every newer device.
        """
        return capability[0] == self.capability[0] and capability[1] >= self.capability[1]

    def occupancy(self, registers: int, shared: int, block: int) -> Occupancy:
        """How many blocks of a kernel a multiprocessor holds at a time.

        registers: of one thread; shared: bytes of one block, static and dynamic together, without
        what the system reserves; block: threads of one block. Where not even one block fits, blocks
        is 0. Source: the CUDA C++ Programming Guide, "Hardware Multithreading" and "Compute
        Capabilities".
        """
        warps = ceil_to(block, WARP) // WARP
        room = {
            "threads": min(self.threads // block, self.warps // warps),
            "blocks": self.blocks,
            "registers": self.blocks_by_registers(registers, warps),
            "shared memory": self.blocks_by_shared(shared),
        }
        if block > self.block_threads:
            room["threads"] = 0
        blocks = min(room.values())
        limit = next(name for name, most in room.items() if most == blocks)
        return Occupancy(blocks, blocks * warps, blocks * warps / self.warps, limit)

    def blocks_by_registers(self, registers: int, warps: int) -> int:
        """Blocks of so many warps that the registers of a multiprocessor are enough for."""
        if registers > self.thread_registers:
            return 0
        if registers == 0:
            return self.blocks
        warp = ceil_to(registers * WARP, self.register_unit)
        if warp * ceil_to(warps, self.warp_unit) > self.block_registers:
            return 0
        # Each of the four parts of a multiprocessor has its own registers, for its own warps.
        resident = self.registers // warp // self.warp_unit * self.warp_unit
        return resident // warps

    def blocks_by_shared(self, shared: int) -> int:
        """Blocks with so many bytes that the shared memory of a multiprocessor is enough for."""
        if shared > self.most_shared:
            return 0
        block = ceil_to(shared + self.reserved_shared, self.shared_unit)
        return self.shared // block if block else self.blocks


def ceil_to(number: int, unit: int) -> int:
    """The next multiple of a unit."""
    return -(-number // unit) * unit


KB = 1024
ARCHS = {
    one.name: one
    for one in (
        Arch("sm_75", (7, 5), "T4", 40, 1024, 32, 16, 64 * KB, 64 * KB, 256, 0),
        Arch("sm_80", (8, 0), "A100", 108, 2048, 64, 32, 164 * KB, 163 * KB, 128, KB),
        Arch("sm_86", (8, 6), "A10", 72, 1536, 48, 16, 100 * KB, 99 * KB, 128, KB),
        Arch("sm_89", (8, 9), "L40S", 142, 1536, 48, 24, 100 * KB, 99 * KB, 128, KB),
        Arch("sm_90", (9, 0), "H100", 132, 2048, 64, 32, 228 * KB, 227 * KB, 128, KB),
        Arch("sm_100", (10, 0), "B200", 148, 2048, 64, 32, 228 * KB, 227 * KB, 128, KB),
    )
}

# The oldest that there is.
OLDEST = next(iter(ARCHS.values()))
# What CUDA is generated for where no GPU decides.
DEFAULT_ARCH = "sm_80"


def arch(name: str) -> Arch:
    """The architecture of a name, such as `sm_90`. Raises DeviceError with the names there are."""
    found = ARCHS.get(name)
    if found is None:
        raise DeviceError(f"there is no architecture {name!r}: it is one of {', '.join(ARCHS)}")
    return found


def arch_name(capability: tuple[int, int]) -> str:
    """`sm_90` for (9, 0)."""
    return f"sm_{capability[0]}{capability[1]}"


def capability_of(name: str) -> tuple[int, int]:
    """(9, 0) for `sm_90`, `sm_90a` or `compute_90`; (10, 0) for `sm_100`."""
    return divmod(int("".join(c for c in name if c.isdigit())), 10)


def arch_of(capability: tuple[int, int]) -> Arch:
    """The newest architecture that is not newer than a device of this compute capability.

    Raises DeviceError for a device older than all of them.
    """
    known = [one for one in ARCHS.values() if one.capability <= capability]
    if not known:
        raise DeviceError(
            f"the device is {arch_name(capability)}: CUDA is generated for {OLDEST.name} and newer"
        )
    return known[-1]
