"""What the compiled kernels take of a GPU: registers, shared memory and spills, from the compiler's
log, and how many blocks of them a multiprocessor holds.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass

from noeira.codegen.cuda.arch import WARP, Arch, Occupancy
from noeira.errors import CompilerError

PROPERTIES = re.compile(
    r"^ptxas info\s*: Function properties for (\w+)\s*\n"
    r"[^\d\n]*(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads",
    flags=re.MULTILINE,
)
# One kernel's part of the log, up to the next one's.
ENTRY = re.compile(
    r"^ptxas info\s*: Compiling entry function '(\w+)' for '\w+'"
    r"(.*?)(?=^ptxas info\s*: Compiling|\Z)",
    flags=re.MULTILINE | re.DOTALL,
)
USED = re.compile(r"Used (\d+) registers([^\n]*)")
BARRIERS = re.compile(r"used (\d+) barriers")
SHARED = re.compile(r"(\d+)(?:\+\d+)? bytes smem")
# In PTX, the most threads of a block, as __launch_bounds__ has it.
BOUND = re.compile(r"\.entry\s+(\w+)\s*\([^)]*\)\s*([^{]*)\{")
THREADS = re.compile(r"\.maxntid\s+([\d, ]+)")


@dataclass(frozen=True)
class Resources:
    """What one kernel takes.

    registers: of one thread; static_shared: bytes of one block, without what a launch adds; stack,
    spill_stores, spill_loads: bytes of one thread; block: the most threads of a block that it was
    compiled for, None if it does not say.
    """

    kernel: str
    registers: int
    static_shared: int = 0
    stack: int = 0
    spill_stores: int = 0
    spill_loads: int = 0
    barriers: int = 0
    block: int | None = None

    @property
    def spills(self) -> int:
        """Bytes of one thread that go to memory and back because registers are short."""
        return self.spill_stores + self.spill_loads

    def occupancy(self, arch: Arch, block: int, shared: int = 0) -> Occupancy:
        """How many blocks of so many threads a multiprocessor holds, each launched with so many
        bytes of dynamic shared memory.
        """
        return arch.occupancy(self.registers, self.static_shared + shared, block)


def parse_resources(log: str, ptx: str = "") -> tuple[Resources, ...]:
    """What the kernels of a unit take, by name: from the compiler's log with the assembler's `-v`,
    and the bounds of blocks from the PTX.
    """
    properties = {found[1]: found for found in PROPERTIES.finditer(log)}
    bounds = launch_bounds(ptx)
    kernels = list[Resources]()
    for entry in ENTRY.finditer(log):
        name, used = entry[1], USED.search(entry[2])
        if used is None:
            continue
        barriers, shared = BARRIERS.search(used[2]), SHARED.search(used[2])
        stack, stores, loads = (
            map(int, properties[name].groups()[1:])
            if name in properties
            else (
                0,
                0,
                0,
            )
        )
        kernels.append(
            Resources(
                name,
                registers=int(used[1]),
                static_shared=int(shared[1]) if shared else 0,
                stack=stack,
                spill_stores=stores,
                spill_loads=loads,
                barriers=int(barriers[1]) if barriers else 0,
                block=bounds.get(name),
            )
        )
    return tuple(sorted(kernels, key=lambda one: one.kernel))


def launch_bounds(ptx: str) -> dict[str, int]:
    """The most threads of a block by kernel, where PTX says so."""
    found = dict[str, int]()
    for name, directives in BOUND.findall(ptx):
        threads = THREADS.search(directives)
        if threads:
            found[name] = math.prod(int(number) for number in threads[1].split(","))
    return found


def check_kernel(kernel: Resources, arch: Arch, block: int | None = None, shared: int = 0) -> None:
    """Raises CompilerError if an architecture cannot run a kernel in blocks of so many threads (by
    default, as many as it was compiled for) with so many bytes of dynamic shared memory.
    """
    check_block(kernel, arch, block)
    threads = block or kernel.block or WARP
    # A kernel whose bound is known was given no more registers than there are; another may have.
    if kernel.registers and arch.blocks_by_registers(kernel.registers, -(-threads // WARP)) == 0:
        wanted = kernel.registers * threads
        most = arch.block_registers // kernel.registers // WARP * WARP
        raise CompilerError(
            f"kernel {kernel.kernel}: {kernel.registers} registers for each of {threads} threads "
            f"are {wanted:,}; a block of {arch.name} has at most {arch.block_registers:,}. Launch "
            f"at most {most} threads a block, or say __launch_bounds__({threads}), which holds the "
            f"compiler to {arch.block_registers // threads // 8 * 8} registers a thread"
        )
    check_shared(kernel, arch, shared)


def check_block(kernel: Resources, arch: Arch, block: int | None) -> None:
    """Raises CompilerError for a block of more threads than there can be."""
    threads = block or kernel.block
    if threads is not None and threads > arch.block_threads:
        said = "__launch_bounds__ says" if block is None else "it is launched with"
        raise CompilerError(
            f"kernel {kernel.kernel}: {said} {threads:,} threads a block; {arch.name} has at most "
            f"{arch.block_threads:,}. Use smaller blocks, and more of them"
        )
    if block is not None and kernel.block is not None and block > kernel.block:
        raise CompilerError(
            f"kernel {kernel.kernel}: it is launched with {block:,} threads a block, but "
            f"__launch_bounds__ says at most {kernel.block:,}. Make the two agree"
        )


def check_shared(kernel: Resources, arch: Arch, shared: int) -> None:
    """Raises CompilerError for more shared memory than a block can have."""
    if kernel.static_shared > arch.block_shared:
        raise CompilerError(
            f"kernel {kernel.kernel}: its __shared__ arrays take {kernel.static_shared:,} bytes; a "
            f"block of {arch.name} has at most {arch.block_shared:,} of that kind. Take them from "
            "dynamic shared memory (extern __shared__), of which there are up to "
            f"{arch.most_shared:,}, or use smaller tiles"
        )
    if kernel.static_shared + shared > arch.most_shared:
        raise CompilerError(
            f"kernel {kernel.kernel}: it takes {kernel.static_shared + shared:,} bytes of shared "
            f"memory ({kernel.static_shared:,} in __shared__ arrays, {shared:,} at launch); a "
            f"block of {arch.name} has at most {arch.most_shared:,}. Use smaller tiles or fewer "
            "stages"
        )


def resources_text(kernels: Iterable[Resources]) -> str:
    """What kernels take, as it is kept beside what was built."""
    return json.dumps([asdict(kernel) for kernel in kernels], indent=1) + "\n"


def read_resources(text: str) -> tuple[Resources, ...]:
    """What `resources_text` wrote."""
    return tuple(Resources(**fields) for fields in json.loads(text))
