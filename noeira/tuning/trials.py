"""Trials: the step of a plan, in which the kernels of some calls can be exchanged and timed."""

from __future__ import annotations

import ctypes
import statistics
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from noeira.codegen.c.target import CTarget
from noeira.codegen.c.trials import (
    KERNELS_SYMBOL,
    STEP_SYMBOL,
    kernels_source,
    trial_kernels,
    trial_step,
)
from noeira.codegen.interface import io_names
from noeira.codegen.sharing import Shared
from noeira.ir.choices import Problem
from noeira.ir.graph import ComputeGraph, Node
from noeira.ir.plan import Call, Choice, Plan
from noeira.ir.types import TensorType
from noeira.planning.memory import make_plan
from noeira.runtime.build.library import load
from noeira.runtime.c.toolchain import CToolchain
from noeira.runtime.entry_point import EntryPoint
from noeira.runtime.store import aligned_zeros

if TYPE_CHECKING:
    import numpy as np

# Kernels of one unit: few enough to share them between processors, many enough to start gcc seldom.
UNIT_KERNELS = 8
# How often a visit is made that others disturb.
TRIES = 3
# Seconds of a visit, and its most steps; one more comes first, which finds the kernel's code and
# its threads cold, unless a step takes so long that this does not matter.
VISIT_SECONDS, VISIT_STEPS, LONG_STEP = 0.002, 24, 0.05


@dataclass(frozen=True)
class Tried:
    """A problem of a graph, the first results of the calls that it is of, and what may be tried for
    it, the rule's own choice first. Of a call of several phases it is one: see `completed` of
    `Target`.
    """

    problem: Problem
    results: tuple[str, ...]
    candidates: tuple[Choice, ...]


def problems_of(graph: ComputeGraph, target: CTarget, most: int) -> list[Tried]:
    """The problems of a graph, in order, each with at most so many candidates."""
    found = dict[Problem, list[Node]]()
    for node in graph.launching():
        problem = target.problem(node)
        if problem is not None:
            found.setdefault(problem, []).append(node)
    tried = list[Tried]()
    for problem, nodes in found.items():
        row = target.choices.find(problem)
        known = [target.completed_of(target.tuned(nodes[0]), row.stages)] if row else []
        rule, *others = target.candidates(nodes[0])
        # The row of a table is always among them: the search is to confirm it or to drop it.
        candidates = tuple(dict.fromkeys([rule, *known, *others]))[: max(most, 1 + len(known))]
        tried.append(Tried(problem, tuple(n.outputs[0].name for n in nodes), candidates))
    return tried


class StageFunction(ctypes.Structure):
    """The address of a kernel's function, and whether threads share its work."""

    _fields_ = (("function", ctypes.c_void_p), ("shared", ctypes.c_int))


class TrialStep(EntryPoint):
    """A built step, over the memory of its inputs, states and outputs."""

    def __init__(self, plan: Plan, library: ctypes.CDLL, tried: int) -> None:
        self.slots = {name: i for i, name in enumerate(io_names(plan))}
        self.table = (ctypes.c_void_p * max(len(self.slots), 1))()
        super().__init__(plan.graph)
        self.arena = aligned_zeros(TensorType("u8", (max(plan.arena, 1),)))
        self.tried = tried
        self.function: Any = getattr(library, STEP_SYMBOL)
        self.function.restype = None

    def bind(self, root: str, array: np.ndarray) -> None:
        self.arrays[root] = array
        self.table[self.slots[root]] = array.ctypes.data

    def times(self, chosen: Sequence[int], threads: int, steps: int) -> np.ndarray:
        """Nanoseconds, (steps, tried calls), of running the stages at those addresses."""
        import numpy as np

        found = np.zeros((steps, self.tried), np.int64)
        self.function(
            ctypes.c_void_p(self.arena.ctypes.data),
            self.table,
            ctypes.c_int(threads),
            ctypes.c_long(steps),
            (ctypes.c_void_p * len(chosen))(*chosen),
            ctypes.c_void_p(found.ctypes.data),
        )
        return found


class Trials:
    """Problems whose candidates can be timed, all in one step."""

    def __init__(
        self, tried: Sequence[Tried], step: TrialStep, functions: Sequence[Any], threads: int
    ) -> None:
        self.tried, self.step, self.functions, self.threads = tried, step, functions, threads
        self.steps, self.cold = 1, 1
        total = sum(self.visit([0] * len(tried)))
        self.steps = max(1, min(VISIT_STEPS, int(VISIT_SECONDS / (total + 1e-6))))
        self.cold = 0 if total > LONG_STEP else 1

    def visit(self, picks: Sequence[int]) -> list[float]:
        """Seconds that each problem takes with a candidate, its calls together: the median of some
        steps in a row. Runs again, a few times at most, if other processes took a processor.
        """
        chosen = [
            ctypes.addressof(stages)
            for functions, pick in zip(self.functions, picks, strict=True)
            for stages in functions[pick]
        ]
        times = self.undisturbed(chosen)
        found, at = list[float](), 0
        for tried in self.tried:
            own = times[:, at : at + len(tried.results)].sum(axis=1)
            at += len(tried.results)
            found.append(1e-9 * statistics.median(own.tolist()))
        return found

    def undisturbed(self, chosen: Sequence[int]) -> np.ndarray:
        """The times of some steps, the last of a few tries if others disturb all of them."""
        tries = 0
        while True:
            before, tries = interruptions(), tries + 1
            times = self.step.times(chosen, self.threads, self.cold + self.steps)
            if tries == TRIES or interruptions() == before:
                return times[self.cold :]


def interruptions() -> int:
    """How often another process has taken a processor from this one, as far as the system says."""
    try:
        import resource
    except ImportError:
        return 0
    return resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw


def build_trials(
    graph: ComputeGraph,
    tried: Sequence[Tried],
    toolchain: CToolchain,
    bind: Callable[[EntryPoint], None],
    threads: int,
    processors: int,
) -> Trials:
    """Builds the step and all candidates, as many units at a time as there are processors; `bind`
    gives the step its inputs and states. Raises CompilerError.
    """
    target = toolchain.target
    plan = trial_plan(graph, tried, target)
    index = {call.node.outputs[0].name: i for i, call in enumerate(plan.calls)}
    places = [[index[name] for name in one.results] for one in tried]
    calls = [
        [[tried_call(plan.calls[i], choice, target) for i in own] for choice in one.candidates]
        for one, own in zip(tried, places, strict=True)
    ]
    flat = [call for candidates in calls for own in candidates for call in own]
    kernels = trial_kernels(plan, flat, target)
    units = [kernels[i : i + UNIT_KERNELS] for i in range(0, len(kernels), UNIT_KERNELS)]
    order = [i for own in places for i in own]
    sources = [
        trial_step(plan, order, target),
        *(kernels_source(plan.name, unit, target) for unit in units),
    ]
    with ThreadPoolExecutor(processors) as pool:
        build = pool.map(toolchain.build, sources)
        libraries = [load(library) for library in build]
    known = dict[int, Any]()
    for unit, library in zip(units, libraries[1:], strict=True):
        known |= stages_of(unit, library)
    functions = [[tuple(known[id(c)] for c in own) for own in candidates] for candidates in calls]
    step = TrialStep(plan, libraries[0], len(order))
    bind(step)
    return Trials(tried, step, functions, threads)


def tried_call(call: Call, choice: Choice, target: CTarget) -> Call:
    """A call with one of the choices that are tried for it."""
    return replace(call, choice=target.completed(call.node, choice.stages))


def trial_plan(graph: ComputeGraph, tried: Sequence[Tried], target: CTarget) -> Plan:
    """A plan in which each tried call has room for the largest workspace of its candidates."""
    candidates = {name: one.candidates for one in tried for name in one.results}

    def roomy(node: Node) -> Choice:
        choices = candidates.get(node.outputs[0].name)
        if choices is None:
            return target.choose(node)
        found = [target.completed(node, choice.stages) for choice in choices]
        return replace(found[0], workspace=max(choice.workspace for choice in found))

    return make_plan(graph, roomy, target.name)


def stages_of(kernels: Sequence[Shared], library: ctypes.CDLL) -> dict[int, Any]:
    """For the `id` of each call, the functions of its stages with a NULL behind them."""
    count = sum(len(kernel.functions) for kernel in kernels)
    addresses = iter((ctypes.c_void_p * count).in_dll(library, KERNELS_SYMBOL))
    found = dict[int, Any]()
    for kernel in kernels:
        own = [next(addresses) for _ in kernel.functions]
        for _, call in kernel.calls:
            shared = [stage.split for stage in call.choice.stages]
            found[id(call)] = (StageFunction * (len(own) + 1))(*zip(own, shared, strict=True))
    return found
