"""Runs mutants of CUDA kernels on the CPU, in check mode, each in a process of its own.

`python -m mutant_runs SHARE SHARES STEP` takes of every STEP-th mutant the SHARE-th of so
many shares, beside every kernel as it is. It prints a line for each: its number in `all_mutants`,
and how it was caught, or `survived`.
"""

from __future__ import annotations

import os
import resource
import signal
import sys
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property

import numpy as np
from cuda_sweep import CudaKernels, CudaLibrary
from mutant_kernels import Subject
from mutant_subjects import subjects
from mutants import Mutant
from sweep import TOLERANCE, magnitudes, reference

from noeira.errors import DeviceError, KernelFault
from noeira.ir.arrays import dtype_name

# Kernels of a unit, so that a compiler's work and memory stay small.
UNIT = 100
# Seconds of processor time that a mutant may take: it ends in far less, or never.
SECONDS = 2
ORDERS = (("forward", 0), ("reverse", 0), ("random", 1))
SURVIVED = "survived"
UNCHANGED = "unchanged"
Pair = tuple[Subject, Mutant]


@cache
def all_mutants() -> tuple[Pair, ...]:
    """Every mutant of every kernel, each after its kernel as it is."""
    found = list[Pair]()
    for subject in subjects():
        whole = Mutant(UNCHANGED, UNCHANGED, 0, subject.text)
        found += [(subject, mutant) for mutant in (whole, *subject.mutants)]
    return tuple(found)


def taken(pairs: Sequence[Pair], step: int, share: int = 0, shares: int = 1) -> list[int]:
    """The numbers of every kernel as it is and of every `step`-th mutant, in order of their kinds,
    one share of them.
    """
    whole = [i for i, (_, mutant) in enumerate(pairs) if mutant.kind == UNCHANGED]
    changed = [i for i, (_, mutant) in enumerate(pairs) if mutant.kind != UNCHANGED]
    changed.sort(key=lambda i: pairs[i][1].kind)
    return sorted([*whole, *changed[::step]])[share::shares]


@dataclass(frozen=True)
class MutantKernels(CudaKernels):
    """A unit of mutants."""

    pairs: tuple[Pair, ...] = ()

    @classmethod
    def made(cls, pairs: Sequence[Pair]) -> MutantKernels:
        """The unit of these."""
        cases = [replace(one.case, label=f"mutant {i}") for i, (one, _) in enumerate(pairs)]
        choices = [subject.choice for subject, _ in pairs]
        return cls(tuple(cases), tuple(choices), pairs=tuple(pairs))

    @cached_property
    def case_texts(self) -> tuple[str, ...]:
        return tuple(mutant.text for _, mutant in self.pairs)


class Trials:
    """The operands that a kernel is tried on, with what it should give."""

    def __init__(self, subject: Subject) -> None:
        node = subject.case.node
        self.found = list[tuple[list[np.ndarray], list[np.ndarray], list[np.ndarray]]]()
        for arrays in subject.trials():
            with np.errstate(all="ignore"):
                expected = reference(node, arrays)
                sizes = magnitudes(node, arrays, expected)
            # Where one result is NaN, each other has its own size alone.
            numbers = [np.nan_to_num(abs(e), posinf=0) for e in expected]
            sizes = [np.nan_to_num(size, posinf=0) for size in sizes]
            sizes = list(map(np.fmax, sizes, numbers))
            self.found.append((arrays, expected, sizes))

    def outcome(self, library: CudaLibrary, number: int) -> str:
        """How the mutant of this number is caught: by a fault, what it left unwritten or wrote
        beside its results, or its results in some order; or that it is not.
        """
        case = library.kernels.cases[number]
        for order in ORDERS:
            for arrays, expected, sizes in self.found:
                try:
                    results = library.run(case, arrays, order)
                except KernelFault as fault:
                    return f"{fault.kind}, {order[0]}"
                except DeviceError:
                    return "not launched"
                except AssertionError:
                    return f"unwritten, {order[0]}"
                if not all(map(agrees, results, expected, sizes)):
                    return f"result, {order[0]}"
        return SURVIVED


def agrees(got: np.ndarray, want: np.ndarray, size: np.ndarray) -> bool:
    """Whether a result is the reference's, within the tolerance of its dtype."""
    if got.dtype.kind != "f":
        return bool(np.array_equal(got, want))
    with np.errstate(all="ignore"):
        close = abs(got - want) <= TOLERANCE[dtype_name(got.dtype)] * size
    return bool(np.all(close | (got == want) | (np.isnan(got) & np.isnan(want))))


def alone(trials: Trials, library: CudaLibrary, number: int) -> str:
    """The outcome of a mutant in a process that may crash or never end. Raises RuntimeError if it
    could not be tried.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        # The system ends the process when the time is up, whatever it does.
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS + 1))
        try:
            os.write(writing, trials.outcome(library, number).encode())
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        text = pipe.read().decode()
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return "endless" if os.WTERMSIG(status) == signal.SIGXCPU else "crash"
    if status != 0:
        raise RuntimeError(f"{library.kernels.cases[number].label} could not be tried")
    return text


def main(share: int, shares: int, step: int) -> None:
    """Builds and runs a share of the mutants."""
    pairs = all_mutants()
    numbers = taken(pairs, step, share, shares)
    # Made when first asked for: a kernel's mutants are neighbours.
    trials = dict[str, Trials]()
    for start in range(0, len(numbers), UNIT):
        some = numbers[start : start + UNIT]
        library = MutantKernels.made([pairs[i] for i in some]).built(check=True)
        for number, i in enumerate(some):
            subject = pairs[i][0]
            if subject.label not in trials:
                trials[subject.label] = Trials(subject)
            print(i, alone(trials[subject.label], library, number), flush=True)


if __name__ == "__main__":
    number, count, every = map(int, sys.argv[1:4])
    main(number, count, every)
