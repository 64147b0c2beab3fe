"""What check mode found: for every kernel that it is clean, or each of its faults, where in the
source, and what that means.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import wrap
from typing import Any

from noeira.errors import KernelFault
from noeira.report.report import Report
from noeira.report.table import plural, table

# Kinds of faults, what each means, and what to look for.
MEANINGS = {
    "race": (
        "two threads touch the same memory, at least one of them writes, and nothing orders them: "
        "look for a missing __syncthreads (or __syncwarp) between the two lines, or for an index "
        "that two threads or blocks share"
    ),
    "out of bounds": (
        "the address lies outside what the kernel was given: look at the guard around this line "
        "(< or <=, the last tile, rows against columns) and at how the index is put together"
    ),
    "uninitialised": (
        "it is read before anything wrote it, so on a GPU it is whatever was there: look for a "
        "store that is skipped at an edge, a missing barrier, or an index that differs from the "
        "store's"
    ),
    "read-only": (
        "an input, which other kernels still need, is written: look for pointers that were mixed "
        "up (a0, a1, … are inputs, y0, y1, … results)"
    ),
    "misaligned": (
        "an access of 8 or 16 bytes begins at an address that is no multiple of its size, which "
        "ends the program on a GPU: use scalar accesses where rows are no multiple of that"
    ),
    "divergence": (
        "threads that must meet wait at different places, and on a GPU would hang or go on with "
        "wrong values: move the barrier or shuffle out of the branch or loop that not all of them "
        "take"
    ),
    "deadlock": (
        "a warp waits for a lane that never comes: look for a shuffle under a condition, or a mask "
        "that names lanes which have left"
    ),
    "unwritten output": (
        "the kernel ended and elements of its result were never stored, so the next kernel reads "
        "what was there before: look for a grid that is too small, a guard that is too strict, or "
        "a stride that skips some"
    ),
    "memory": "the host is short of memory: nothing is said about the kernel",
}
# Characters of a line of prose.
WIDTH = 96
UNKNOWN = "the kernel does what a GPU does not allow"


@dataclass(frozen=True)
class Found:
    """A fault, the entry and the results of the call that it came up in."""

    entry: str
    call: str
    fault: KernelFault

    @property
    def place(self) -> tuple[str, int | str]:
        """What makes it the same fault as another one of its kernel."""
        return self.fault.kind, self.fault.line or self.fault.text

    @property
    def meaning(self) -> str:
        """What it means, and what to look for."""
        return MEANINGS.get(self.fault.kind, UNKNOWN)


@dataclass
class CheckedKernel:
    """A kernel, which is one stage of its calls, how often it was launched, and its faults: the
    first of each kind and line.
    """

    kernel: str
    stage: str
    launches: int = 0
    faults: list[Found] = field(default_factory=list)

    def add(self, found: Found) -> None:
        """Note a fault unless one like it is known."""
        if found.place not in {known.place for known in self.faults}:
            self.faults.append(found)


@dataclass(frozen=True)
class CheckReport(Report):
    """What came of launching the kernels of a unit in check mode.

    path: of the source with the lines of `text`; entries: that were run; order, seed: of threads
    and of what was drawn.
    """

    name: str
    target: str
    path: Path
    text: str
    entries: tuple[str, ...]
    order: str
    seed: int
    kernels: tuple[CheckedKernel, ...]

    @property
    def is_clean(self) -> bool:
        """Whether there is no fault."""
        return not any(kernel.faults for kernel in self.kernels)

    def line(self, number: int | None) -> str:
        """A line of the source, "" if there is none."""
        lines = self.text.splitlines()
        return lines[number - 1].strip() if number and number <= len(lines) else ""

    def to_json(self) -> dict[str, Any]:
        """The report as an object."""
        return {
            "name": self.name,
            "target": self.target,
            "source": str(self.path),
            "entries": list(self.entries),
            "order": self.order,
            "seed": self.seed,
            "clean": self.is_clean,
            "kernels": [
                {
                    "kernel": kernel.kernel,
                    "stage": kernel.stage,
                    "launches": kernel.launches,
                    "clean": not kernel.faults,
                    "faults": [self.fault_value(found) for found in kernel.faults],
                }
                for kernel in self.kernels
            ],
        }

    def fault_value(self, found: Found) -> dict[str, Any]:
        """A fault as an object."""
        fault = found.fault
        return {
            "kind": fault.kind,
            "entry": found.entry,
            "call": found.call,
            "block": fault.block,
            "thread": fault.thread,
            "line": fault.line,
            "source_line": self.line(fault.line),
            "text": fault.text,
            "meaning": found.meaning,
        }

    def __str__(self) -> str:
        rows = [
            (kernel.kernel, kernel.stage, f"{kernel.launches:,}", verdict(kernel))
            for kernel in self.kernels
        ]
        order = f"{self.order} order" + (f", seed {self.seed}" if self.order == "random" else "")
        head = f"{self.name} for {self.target}: {', '.join(self.entries)}; threads in {order}"
        lines = [head, "", *table(("kernel", "stage", "launches", "found"), rows, right=(2,))]
        for kernel in self.kernels:
            for found in kernel.faults:
                lines += ["", *self.fault_lines(kernel, found)]
        return "\n".join([*lines, "", self.summary(), f"source: {self.path}"])

    def fault_heads(self) -> Iterator[str]:
        """The first lines of all faults."""
        for kernel in self.kernels:
            yield from (fault_head(kernel, found) for found in kernel.faults)

    def fault_lines(self, kernel: CheckedKernel, found: Found) -> Iterator[str]:
        """A fault: what, where with the line of the source, whose work it is, what it means."""
        fault = found.fault
        yield fault_head(kernel, found)
        yield f"  of stage {kernel.stage} for {found.call} in {found.entry}"
        if fault.line:
            yield f"  {self.path.name}:{fault.line}:  {self.line(fault.line)}"
        yield from paragraph(fault.text)
        yield from paragraph(f"{found.meaning}.")

    def summary(self) -> str:
        """How many kernels are clean."""
        bad = [kernel for kernel in self.kernels if kernel.faults]
        launches = plural(sum(k.launches for k in self.kernels), "launch", "launches")
        known = f"{plural(len(self.kernels), 'kernel')}, {launches}"
        if not bad:
            return f"{known}: clean"
        faults = sum(len(kernel.faults) for kernel in bad)
        return f"{known}: {plural(faults, 'fault')} in {plural(len(bad), 'kernel')}"


def paragraph(text: str) -> list[str]:
    """A sentence as indented lines."""
    return wrap(text, WIDTH, initial_indent="  ", subsequent_indent="  ", break_long_words=False)


def fault_head(kernel: CheckedKernel, found: Found) -> str:
    """What was found, where, by which thread; a fault of no line is of the launch as a whole."""
    fault = found.fault
    who = f", block {fault.block}, thread {fault.thread}" if fault.line != 0 else ""
    return f"{fault.kind} in {kernel.kernel}{who}"


def verdict(kernel: CheckedKernel) -> str:
    """`clean`, or the kinds of what was found with the lines."""
    if not kernel.faults:
        return "clean"
    return ", ".join(
        found.fault.kind + (f" (line {found.fault.line})" if found.fault.line else "")
        for found in kernel.faults
    )


def faults_of(fault: KernelFault) -> Sequence[KernelFault]:
    """A fault and the further ones of its launch."""
    return fault, *fault.others
