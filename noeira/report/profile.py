"""profile: the measured time of every launch of a step, beside the least this machine allows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from noeira.ir.cost import node_cost
from noeira.ir.plan import Call, Plan
from noeira.ir.types import DTYPE_BYTES
from noeira.machine.limits import Limits
from noeira.report.explain import ExplainedLaunch
from noeira.report.report import Report
from noeira.report.reuse import Moved, traffic
from noeira.report.table import filled, fitting, plural, short, table

if TYPE_CHECKING:
    import numpy as np

    from noeira.runtime.c.timed_entry import Samples

HEAD = ("#", "kernel", "op", "path", "median µs", "min µs", "share", "wait", "FLOPs", "bytes")
HEAD += ("GF/s", "GB/s", "floor µs", "reached", "bound by")
NUMBERS = (0, *range(4, 14))
# What a narrow terminal is spared, the first first.
SPARE = ("min µs", "GF/s", "GB/s", "FLOPs", "bytes", "wait", "op", "share", "path", "floor µs")
# What bounds a launch; a level of memory by its own name.
COMPUTE, OVERHEAD = "compute", "overhead"
# Seconds that a stage of no work takes by one thread: calling it, and taking the time.
CALL = 5e-8
# Characters of a line of prose.
LINE = 100
SORTS = ("launch", "time")
READING = """\
A launch lasts until all threads have met after it; `wait` is the part that the average thread only
waited. Its floor is the longer of its FLOPs at the peak and its bytes at the bandwidth of where
they lie: the first level that holds all that is touched between two uses of them. `reached` is
floor / median, 100 % being the machine's limit, and `bound by` says which limit that is;
`overhead`: there is less to do than it costs to call the threads and wait for them."""

SHORTER = """\
Winograd's algorithm needs fewer products than a convolution's formula has, by which FLOPs are
counted: its launches may reach more."""


@dataclass(frozen=True)
class StageTime:
    """The median seconds of one stage of a launch."""

    name: str
    seconds: float


@dataclass(frozen=True)
class TimedLaunch:
    """A launch as measured. Seconds: `median` and `minimum` over the steps, and the `floor`.

    share: of the sum of all medians. wait: the share of the launch that the average thread waited
    for others. bound: `compute`, a level of memory, or `overhead`. dtype: of its arithmetic.
    """

    launch: ExplainedLaunch
    median: float
    minimum: float
    share: float
    wait: float
    floor: float
    bound: str
    dtype: str
    stages: tuple[StageTime, ...]

    @property
    def gflops(self) -> float:
        """1e9 operations a second, by the median."""
        return 1e-9 * self.launch.flops / self.median

    @property
    def gbytes(self) -> float:
        """1e9 bytes a second, by the median."""
        return 1e-9 * self.launch.bytes / self.median

    @property
    def reached(self) -> float:
        """The floor as a share of the median."""
        return self.floor / self.median

    def to_json(self) -> dict[str, Any]:
        """The launch as an object; times in seconds."""
        return {
            "number": self.launch.number,
            "kernel": self.launch.kernel,
            "op": self.launch.op,
            "path": self.launch.origin.path,
            "median": self.median,
            "minimum": self.minimum,
            "share": self.share,
            "wait": self.wait,
            "flops": self.launch.flops,
            "bytes": self.launch.bytes,
            "gflops": self.gflops,
            "gbytes": self.gbytes,
            "floor": self.floor,
            "reached": self.reached,
            "bound": self.bound,
            "dtype": self.dtype,
            "stages": [asdict(stage) for stage in self.stages],
        }


@dataclass(frozen=True)
class Profile(Report):
    """The launches of one entry as measured; its text is a table.

    step: median seconds of a step as a program runs it; timed_step: with the times taken. steps:
    how many were measured.
    """

    name: str
    target: str
    threads: int
    steps: int
    limits: Limits
    launches: tuple[TimedLaunch, ...]
    step: float
    timed_step: float

    @property
    def sum(self) -> float:
        """Seconds of all launches, by their medians."""
        return sum(found.median for found in self.launches)

    @property
    def waiting(self) -> float:
        """Seconds that the average thread waited."""
        return sum(found.wait * found.median for found in self.launches)

    @property
    def floor(self) -> float:
        """Seconds of all floors."""
        return sum(found.floor for found in self.launches)

    @property
    def shortened(self) -> bool:
        """Whether a launch needs fewer products than its formula has."""
        return any("winograd" in stage.name for one in self.launches for stage in one.stages)

    def to_json(self) -> dict[str, Any]:
        """The profile as an object; times in seconds."""
        return {
            "name": self.name,
            "target": self.target,
            "threads": self.threads,
            "steps": self.steps,
            "limits": asdict(self.limits),
            "launches": [found.to_json() for found in self.launches],
            "sum": self.sum,
            "waiting": self.waiting,
            "floor": self.floor,
            "step": self.step,
            "timed_step": self.timed_step,
        }

    def text(self, sort: str = "launch", width: int = 0) -> str:
        """The table, in order of launch or, the longest first, of time; with lines of at most
        `width` characters where that can be, 0 for any number.
        """
        shown = list(self.launches)
        if sort == "time":
            shown.sort(key=lambda found: -found.median)
        rows = [*map(row, shown), self.total_row()]
        kept = fitting(HEAD, rows, width, SPARE)
        right = [place for place, column in enumerate(kept) if column in NUMBERS]
        cells = ([one[column] for column in kept] for one in (HEAD, *rows))
        head, *lines, total = table(next(cells), [*cells], right)
        body = list[str]()
        for found, line in zip(shown, lines, strict=True):
            body.append(line)
            if len(found.stages) > 1:
                parts = ", ".join(f"{s.name} {micro(s.seconds)} µs" for s in found.stages)
                body.append(f"{' ' * line.index(found.launch.kernel)}└ {parts}")
        launches = plural(len(self.launches), "launch", "launches")
        threads, steps = plural(self.threads, "thread"), f"{plural(self.steps, 'step')} measured"
        return "\n".join(
            [
                *filled(f"@{self.name} for {self.target}, {threads}: {launches}, {steps}", width),
                *filled(limits_line(self.limits), width),
                "",
                head,
                *body,
                total,
                "",
                *(line for text in self.step_lines() for line in filled(text, width)),
                "",
                *filled(READING, width or LINE),
                *(filled(SHORTER, width or LINE) if self.shortened else ()),
            ]
        )

    def total_row(self) -> tuple[str, ...]:
        """The sums of all launches."""
        flops = sum(found.launch.flops for found in self.launches)
        moved = sum(found.launch.bytes for found in self.launches)
        minimum = sum(found.minimum for found in self.launches)
        return (
            *("", "in all", "", ""),
            *(micro(self.sum), micro(minimum), "", percent(self.waiting / self.sum)),
            *(short(flops), short(moved)),
            *(rate(1e-9 * flops / self.sum), rate(1e-9 * moved / self.sum)),
            *(micro(self.floor), percent(self.floor / self.sum), ""),
        )

    def step_lines(self) -> list[str]:
        """What a whole step takes, and what of it is no work."""
        return [
            f"step: {micro(self.step)} µs as a program runs it, {micro(self.timed_step)} µs with "
            f"the times taken; of that the average thread waits {micro(self.waiting)} µs.",
            f"floor: {micro(self.floor)} µs, {percent(self.floor / self.step)} of the step.",
        ]

    def __str__(self) -> str:
        return self.text()


def profile_of(
    plan: Plan, launches: Sequence[ExplainedLaunch], samples: Samples, limits: Limits
) -> Profile:
    """The profile of a plan, whose launches are given as `explained` has them."""
    import numpy as np

    parts = traffic(plan, limits.bandwidths[-2].bytes)
    found, first = list[TimedLaunch](), 0
    for launch, call, moved in zip(launches, plan.calls, parts, strict=True):
        own = slice(first, first + len(launch.stages))
        first = own.stop
        floor = floor_of(call, moved, limits)
        found.append(timed_launch(launch, samples.stages[:, own], samples.work[:, own], floor))
    total = sum(one.median for one in found)
    return Profile(
        plan.name,
        plan.target,
        samples.threads,
        len(samples.stages),
        limits,
        tuple(replace(one, share=one.median / total) for one in found),
        float(np.median(samples.plain)),
        float(np.median(samples.stages.sum(axis=1))),
    )


def timed_launch(
    launch: ExplainedLaunch, stages: np.ndarray, work: np.ndarray, floor: tuple[float, str, str]
) -> TimedLaunch:
    """A launch from its samples, (steps, stages), and its floor; its share is still to be known."""
    import numpy as np

    whole = stages.sum(axis=1)
    median = float(np.median(whole))
    worked = float(np.median(work.sum(axis=1)))
    times = zip(launch.stages, np.median(stages, axis=0), strict=True)
    return TimedLaunch(
        launch,
        median,
        float(whole.min()),
        0.0,
        max(0.0, 1 - worked / median),
        *floor,
        tuple(StageTime(name, float(seconds)) for name, seconds in times),
    )


def floor_of(call: Call, parts: Sequence[Moved], limits: Limits) -> tuple[float, str, str]:
    """The least seconds of a call, what sets them (`compute`, a level, or `overhead`), and the
    dtype of its arithmetic.
    """
    dtype = dtype_of(call)
    arithmetic = limits.arithmetic_seconds(node_cost(call.node).flops, dtype)
    levels: dict[str, float] = {}
    for part in parts:
        place = limits.bandwidth(part.working_set)
        seconds = place.seconds(part.read, part.written)
        levels[place.level] = levels.get(place.level, 0.0) + seconds
    moving = sum(levels.values())
    floor = max(arithmetic, moving)
    shared = sum(stage.split for stage in call.choice.stages)
    if floor <= len(call.choice.stages) * CALL + shared * limits.handover:
        return floor, OVERHEAD, dtype
    bound = COMPUTE if arithmetic >= moving else max(levels, key=levels.__getitem__)
    return floor, bound, dtype


def dtype_of(call: Call) -> str:
    """The widest float that a call works with: its arithmetic is that dtype's."""
    values = (*call.node.inputs, *call.node.outputs)
    floats = {value.type.dtype for value in values if value.type.is_float and value.type.size > 1}
    return max(floats, key=DTYPE_BYTES.__getitem__, default="f32")


def limits_line(limits: Limits) -> str:
    """The measured limits in a line."""
    peaks = ", ".join(f"{rate(peak)} GF/s in {dtype}" for dtype, peak in limits.peak.items())
    levels = [f"{b.level} {rate(b.read)} / {rate(b.copy)}" for b in limits.bandwidths]
    exchange = f"; from another thread {rate(limits.exchange)}" if limits.threads > 1 else ""
    return f"limits: {peaks}; GB/s read / copied: {', '.join(levels)}{exchange}"


def row(found: TimedLaunch) -> tuple[str, ...]:
    """A launch's cells."""
    launch = found.launch
    return (
        *launch.names,
        micro(found.median),
        micro(found.minimum),
        percent(found.share),
        percent(found.wait),
        short(launch.flops),
        short(launch.bytes),
        rate(found.gflops),
        rate(found.gbytes),
        micro(found.floor),
        percent(found.reached),
        found.bound,
    )


def micro(seconds: float) -> str:
    """Microseconds: `243.1`, `0.08`."""
    found = 1e6 * seconds
    return f"{found:,.1f}" if found >= 10 else f"{found:.2f}"


def percent(share: float) -> str:
    """`12 %`, `0.4 %`."""
    digits = 1 if 0 < share < 0.0095 else 0
    return f"{100 * share:.{digits}f} %"


def rate(value: float) -> str:
    """A rate in 1e9 a second: `236`, `35.6`, `0.4`."""
    return f"{value:,.0f}" if value >= 99.5 else f"{value:.1f}"
