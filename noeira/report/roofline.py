"""The roofline of a profile as a picture: every launch under what the machine allows.

After S. Williams, A. Waterman, D. Patterson: Roofline: an insightful visual performance model for
multicore architectures (2009).
"""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from noeira.errors import NoeiraError
from noeira.report.profile import COMPUTE, OVERHEAD, Profile, TimedLaunch, percent, rate
from noeira.report.table import plural

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.text import Annotation
    from matplotlib.transforms import Bbox

    from noeira.machine.limits import Bandwidth

PICTURES = (".png", ".svg", ".pdf")
MISSING = 'the roofline needs matplotlib: pip install "noeira[viz]"'
# Launches with a smaller share of the time are not drawn.
LEAST_SHARE = 0.004
COLOURS = {COMPUTE: "#2a78d6", "memory": "#eb6834", OVERHEAD: "#8a8984"}
INK, MUTED, GRID, SURFACE = "#0b0b0b", "#52514e", "#e4e3df", "#fcfcfb"
# Area of the dot of a launch that is all of the step, in points².
LARGEST_DOT, SMALLEST_DOT = 2400, 28
# Two roofs nearer than this have their names on either side.
NEAR = 1.5
# Pixels between the points of a line that labels keep away from.
STEP = 4
# Where a label may be, beside its dot, the best first: direction and alignment.
SIDES = (
    (1, 0, "left", "center"),
    (-1, 0, "right", "center"),
    (0, 1, "center", "bottom"),
    (0, -1, "center", "top"),
    (0.75, 0.75, "left", "bottom"),
    (0.75, -0.75, "left", "top"),
    (-0.75, 0.75, "right", "bottom"),
    (-0.75, -0.75, "right", "top"),
)
FURTHER = (1.0, 2.5, 5.0, 8.0)


def check_drawable(path: str) -> None:
    """Raises NoeiraError with what to install without matplotlib, or if no picture ends so."""
    if importlib.util.find_spec("matplotlib") is None:
        raise NoeiraError(MISSING)
    if not path.lower().endswith(PICTURES):
        raise NoeiraError(f"{path} cannot be drawn: let its name end in {' or '.join(PICTURES)}")


def draw(profile: Profile, path: str) -> None:
    """Write the picture; the ending of `path` says of what kind: png, svg, pdf.

    Raises NoeiraError without matplotlib, for another ending, or if the file cannot be written.
    """
    check_drawable(path)
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10.5, 6.6), dpi=150, facecolor=SURFACE, layout="constrained")
    canvas = FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    shown = [f for f in profile.launches if f.share >= LEAST_SHARE and f.launch.flops]
    style(axes, profile, shown)
    # The layout is settled before anything is placed by its size on the page.
    canvas.draw()
    figure.set_layout_engine("none")
    discs = dot_boxes(axes, shown)
    taken = roofs(axes, profile, shown, discs)
    lines = line_boxes(axes)
    dots(axes, shown)
    label(axes, shown, discs, taken, lines)
    try:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path)
    except OSError as error:
        raise NoeiraError(f"{path} cannot be written: {error.strerror or error}") from None


def style(axes: Axes, profile: Profile, shown: Sequence[TimedLaunch]) -> None:
    """Scales, titles, and what is not drawn."""
    slowest = min((found.gflops for found in shown), default=1.0)
    intensities = [found.launch.intensity for found in shown] or [1.0]
    top = max(profile.limits.peak.values())
    ridge = top / profile.limits.bandwidths[-1].read
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(min(intensities) / 3, 3 * max(*intensities, ridge))
    axes.set_ylim(min(slowest, top / 30) / 2.5, 2.2 * top)
    axes.set_facecolor(SURFACE)
    axes.grid(True, which="major", color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(which="both", colors=MUTED, labelsize=9)
    for side in axes.spines:
        axes.spines[side].set_visible(side in ("left", "bottom"))
        axes.spines[side].set_color(MUTED)
    plain = "{x:,g}".format
    axes.xaxis.set_major_formatter(lambda x, _: plain(x=x))
    axes.yaxis.set_major_formatter(lambda y, _: plain(x=y))
    axes.set_ylabel("GFLOP/s", color=MUTED)
    hidden = [found for found in profile.launches if found not in shown]
    note = ""
    if hidden:
        share = percent(sum(found.share for found in hidden))
        count = plural(len(hidden), "launch", "launches")
        note = f"\nnot drawn: {count} without arithmetic or very short, together {share}"
    axes.set_xlabel(f"FLOPs for each byte a launch must move{note}", color=MUTED)
    step = f"{1e6 * profile.step:,.0f} µs a step, floor {1e6 * profile.floor:,.0f} µs"
    threads = plural(profile.threads, "thread")
    axes.set_title(
        f"@{profile.name} for {profile.target}, {threads}: {step}",
        loc="left",
        color=INK,
        fontsize=12,
        pad=12,
    )


def roofs(
    axes: Axes, profile: Profile, shown: Sequence[TimedLaunch], discs: Sequence[Bbox]
) -> list[Bbox]:
    """The peak of each dtype that is used, and a slope for each level of memory; gives where their
    names are.
    """
    texts = list[Any]()
    renderer = axes.figure.canvas.get_renderer()  # type: ignore[union-attr]
    used = sorted({found.dtype for found in shown}) or ["f32"]
    peaks = {dtype: profile.limits.peak[dtype] for dtype in used}
    top, (left, right) = max(peaks.values()), axes.get_xlim()
    levels = sorted(profile.limits.bandwidths, key=lambda level: -level.read)
    for dtype, peak in peaks.items():
        start = peak / levels[0].read
        axes.plot([max(start, left), right], [peak, peak], color=INK, linewidth=1.3, zorder=2)
        texts.append(
            axes.annotate(
                f"peak {dtype}: {rate(peak)} GFLOP/s",
                (max(start, left), peak),
                (2, 4),
                textcoords="offset points",
                fontsize=8.5,
                color=INK,
            )
        )
    bottom, faster = axes.get_ylim()[0], math.inf
    for index, level in enumerate(levels):
        start, end = max(left, bottom / level.read), top / level.read
        axes.plot([start, end], [start * level.read, top], color=MUTED, linewidth=1.1, zorder=2)
        beneath = faster / level.read < NEAR
        faster = level.read
        places = [*range(5 + 4 * index, 60, 5), 5 + 4 * index]
        for along in places:
            text = slope_name(axes, level, (start, end), along / 100, beneath)
            if not text.get_window_extent(renderer).count_overlaps(discs) or along == places[-1]:
                texts.append(text)
                break
            text.remove()
    return [text.get_window_extent(renderer).padded(1) for text in texts]


def line_boxes(axes: Axes) -> list[Bbox]:
    """Small boxes along the lines drawn so far, which labels keep away from if they can."""
    from matplotlib.transforms import Bbox

    found = list[Bbox]()
    for line in axes.lines:
        (x1, y1), (x2, y2) = axes.transData.transform(line.get_xydata())
        count = int(max(abs(x2 - x1), abs(y2 - y1)) // STEP) + 1
        for i in range(count + 1):
            x, y = x1 + (x2 - x1) * i / count, y1 + (y2 - y1) * i / count
            found.append(Bbox.from_bounds(x - 1, y - 1, 2, 2))
    return found


def slope_name(
    axes: Axes, level: Bandwidth, span: tuple[float, float], along: float, beneath: bool
) -> Annotation:
    """The name of a slope, beginning at a part of its length."""
    (x1, y1), (x2, y2) = axes.transData.transform([(x, x * level.read) for x in span])
    x = span[0] * (span[1] / span[0]) ** along
    return axes.annotate(
        f"{level.level}: {rate(level.read)} GB/s",
        (x, x * level.read),
        (0, -3 if beneath else 3),
        textcoords="offset points",
        rotation=math.degrees(math.atan2(y2 - y1, x2 - x1)),
        rotation_mode="anchor",
        ha="left",
        va="top" if beneath else "bottom",
        fontsize=8.5,
        color=MUTED,
    )


def dot_boxes(axes: Axes, shown: Sequence[TimedLaunch]) -> list[Bbox]:
    """Where the dots are."""
    from matplotlib.transforms import Bbox

    found = list[Bbox]()
    for one in shown:
        x, y = axes.transData.transform((one.launch.intensity, one.gflops))
        r = radius(one) * axes.figure.dpi / 72
        found.append(Bbox.from_bounds(x - r, y - r, 2 * r, 2 * r))
    return found


def dots(axes: Axes, shown: Sequence[TimedLaunch]) -> None:
    """A dot for each launch, its area its share, and a line from it up to its own floor."""
    for found in shown:
        x, colour = found.launch.intensity, COLOURS.get(found.bound, COLOURS["memory"])
        if found.reached < 1:
            allowed = 1e-9 * found.launch.flops / found.floor
            axes.plot([x, x], [found.gflops, allowed], color=colour, linewidth=1, alpha=0.5)
            axes.plot([x], [allowed], marker="_", color=colour, markersize=8, alpha=0.8)
        axes.scatter(
            [x],
            [found.gflops],
            s=area(found),
            color=colour,
            alpha=0.85,
            edgecolor=SURFACE,
            linewidth=1,
            zorder=4 - found.share,
        )
    names = {COMPUTE: "bound by arithmetic", "memory": "bound by memory", OVERHEAD: "by overhead"}
    used = {found.bound if found.bound in names else "memory" for found in shown}
    for kind in (kind for kind in names if kind in used):
        axes.scatter([], [], s=60, color=COLOURS[kind], label=names[kind])
    axes.plot([], [], color=MUTED, marker="_", linewidth=1, label="up to a launch's own floor")
    axes.legend(
        loc="lower right",
        frameon=False,
        fontsize=9,
        labelcolor=MUTED,
        title="area: share of the step",
        title_fontsize=9,
    )


def area(found: TimedLaunch) -> float:
    """Of a launch's dot, in points²."""
    return max(SMALLEST_DOT, LARGEST_DOT * found.share)


def radius(found: TimedLaunch) -> float:
    """Of a launch's dot, in points."""
    return math.sqrt(area(found) / math.pi)


def label(
    axes: Axes,
    shown: Sequence[TimedLaunch],
    discs: Sequence[Bbox],
    taken: list[Bbox],
    lines: Sequence[Bbox],
) -> None:
    """Name the launches, the longest first, where no other name or dot is, nor a line if possible;
    a name that finds no room is left out.
    """
    renderer = axes.figure.canvas.get_renderer()  # type: ignore[union-attr]
    legend = axes.get_legend()
    if legend is not None:
        taken.append(legend.get_window_extent(renderer))
    for index in sorted(range(len(shown)), key=lambda i: -shown[i].share):
        others = [*taken, *(disc for i, disc in enumerate(discs) if i != index)]
        for avoided in ([*others, *lines], others):
            box = placed(axes, shown[index], avoided)
            if box is not None:
                taken.append(box)
                break


def placed(axes: Axes, found: TimedLaunch, avoided: Sequence[Bbox]) -> Bbox | None:
    """Write a launch's name at the first place that touches nothing; gives where; None if there is
    no such place.
    """
    renderer = axes.figure.canvas.get_renderer()  # type: ignore[union-attr]
    frame = axes.get_window_extent(renderer)
    for text in tries(axes, found):
        box = text.get_window_extent(renderer)
        if frame.x0 <= box.x0 and box.x1 <= frame.x1 and not box.count_overlaps(avoided):
            return box
        text.remove()
    return None


def tries(axes: Axes, found: TimedLaunch) -> Iterator[Annotation]:
    """The label at each place where it may be, nearest first."""
    from matplotlib.patheffects import withStroke

    launch = found.launch
    name = f"{launch.number} {' + '.join(launch.ops)} ({percent(found.reached)})"
    for further in FURTHER:
        for right, up, horizontal, vertical in SIDES:
            away = radius(found) + 3 * further
            arrow = {"arrowstyle": "-", "color": MUTED, "linewidth": 0.5, "shrinkB": radius(found)}
            yield axes.annotate(
                name,
                (launch.intensity, found.gflops),
                (right * away, up * away),
                textcoords="offset points",
                ha=horizontal,
                va=vertical,
                fontsize=8.5,
                color=INK,
                zorder=5,
                path_effects=[withStroke(linewidth=2.5, foreground=SURFACE)],
                arrowprops=arrow if further > 1 else None,
            )
