"""`loss.png`: the losses of a training over its steps, and below them what else was measured."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from noeira.disk import replacing
from noeira.errors import DataError
from noeira.training.measure import LOSS, TEST_LOSS
from noeira.training.result import Evaluation

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TRAIN_COLOUR, TEST_COLOUR = "#2a78d6", "#eb6834"
OTHERS = ("#1b8a5a", "#8250c4", "#a8780f", "#c2378a")
INK, MUTED, GRID = "#0b0b0b", "#52514e", "#e4e3df"
# A loss is drawn on a logarithmic axis where its largest value is so many times its smallest.
WIDE = 8.0
# Numbers between powers of ten are written out where it is less than so many times.
DECADES = 25.0


def draw(
    rows: Sequence[Evaluation], shares: frozenset[str], best: Evaluation | None, path: Path
) -> None:
    """Write the picture of the rows of the logs.

    shares: metrics that are drawn in per cent, each other one on an axis of its own; best: the row
    that is marked. Raises DataError if the file cannot be written.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    metrics = [name for name in rows[-1].test if name != "loss"]
    together = [name for name in metrics if name in shares]
    below = ([together] if together else []) + [[name] for name in metrics if name not in shares]
    figure = Figure(figsize=(8.0, 3.4 + 2.2 * len(below)), dpi=120, layout="constrained")
    FigureCanvasAgg(figure)
    heights = [1.6, *[1.0] * len(below)]
    axes = figure.subplots(len(heights), 1, sharex=True, squeeze=False, height_ratios=heights)[:, 0]
    draw_losses(axes[0], rows, best)
    for axis, names in zip(axes[1:], below, strict=True):
        draw_metrics(axis, rows, names, shares, best)
    axes[-1].set_xlabel(f"training steps (of {epochs_text(rows[-1].epoch)})", color=MUTED)
    try:
        with replacing(path) as file:
            figure.savefig(file, format="png")
    except OSError as error:
        raise DataError(f"{path} cannot be written: {error.strerror or error}") from None


def draw_losses(axis: Axes, rows: Sequence[Evaluation], best: Evaluation | None) -> None:
    """The loss of training, and of the test data where there are any."""
    drawn = curve(axis, rows, LOSS, "training", TRAIN_COLOUR)
    if "loss" in rows[-1].test:
        drawn += curve(axis, rows, TEST_LOSS, "test", TEST_COLOUR)
    positive = [value for value in drawn if value > 0]
    if len(positive) == len(drawn) and positive and max(positive) > WIDE * min(positive):
        logarithmic(axis, labelled=max(positive) < DECADES * min(positive))
    finish(axis, "Loss", "mean loss of a sample", best)


def logarithmic(axis: Axes, labelled: bool) -> None:
    """A logarithmic axis of plain numbers; labelled: those between powers of ten too."""
    from matplotlib.ticker import FuncFormatter, NullFormatter

    axis.set_yscale("log")
    plain = FuncFormatter(lambda value, _: f"{value:g}")
    axis.yaxis.set_major_formatter(plain)
    axis.yaxis.set_minor_formatter(plain if labelled else NullFormatter())


def draw_metrics(
    axis: Axes,
    rows: Sequence[Evaluation],
    names: Sequence[str],
    shares: frozenset[str],
    best: Evaluation | None,
) -> None:
    """Some metrics of the test data."""
    for index, name in enumerate(names):
        curve(axis, rows, f"test_{name}", name, OTHERS[index % len(OTHERS)], name in shares)
    percent = names[0] in shares
    title = "Test data" if len(names) > 1 else f"{names[0].capitalize()} of the test data"
    finish(axis, title, "per cent" if percent else names[0], best)


def curve(
    axis: Axes,
    rows: Sequence[Evaluation],
    column: str,
    label: str,
    colour: str,
    percent: bool = False,
) -> list[float]:
    """One line over the rows that have the column, with its last value in the legend; gives its
    values.
    """
    rows = [one for one in rows if column in one.row]
    values = [float(one.row[column]) for one in rows]
    shown = [100 * value for value in values] if percent else values
    last = f"{shown[-1]:.2f} %" if percent else f"{shown[-1]:.4g}"
    style: dict[str, Any] = {"marker": "o", "markersize": 3.5} if len(rows) < 40 else {}
    steps = [one.step for one in rows]
    axis.plot(steps, shown, color=colour, linewidth=1.6, label=f"{label}, at last {last}", **style)
    return values


def finish(axis: Axes, title: str, unit: str, best: Evaluation | None) -> None:
    """Title, unit, grid, legend, and a mark at the best row."""
    axis.set_title(title, loc="left", color=INK, fontsize=11)
    axis.set_ylabel(unit, color=MUTED)
    axis.grid(True, which="both", color=GRID, linewidth=0.6)
    axis.set_axisbelow(True)
    if best is not None:
        label = f"best, step {best.step:,}"
        axis.axvline(best.step, color=MUTED, linewidth=0.9, linestyle=":", label=label)
    axis.tick_params(which="both", colors=MUTED)
    axis.tick_params(which="minor", labelsize=8)
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)
    axis.legend(frameon=False, fontsize=8.5, labelcolor=INK)


def epochs_text(number: int) -> str:
    """`1 epoch`, `5 epochs`"""
    return f"{number} epoch{'' if number == 1 else 's'}"
