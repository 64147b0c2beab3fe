"""Training steps and forward passes of networks of images, ours beside the peers'.

    python benchmarks/vision.py                                  ours alone
    python benchmarks/vision.py --peers FOLDER --python PYTHON   and the peers', in their own Python

`convnet` is three convolutions of 3x3, 32, 64 and 128 channels, with two maxima and two layers
behind them, trained by Adam; `resnet18` is ResNet-18 for images of 32x32, trained by SGD with
momentum and decay. Peers are asked as `steps.py` says; PyTorch also with its images channels last
(`_cl`). The other tables are the memory of the same runs, and where a step's time goes by kind of
kernel, as `noeira profile` measures it.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

from common import Table, ask_for_priority, digits, main, milliseconds, percent
from floors import profile
from networks import ConvNet, ResNet, images
from processes import Outcome
from programs import Config, Measured, Programs, Work, columns_of, measure, times

# Channels and stride of the blocks of ResNet-18.
BLOCKS = ((64, 1), (64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), (512, 1))
SIDE = 32


def convnet_layers() -> Iterator[int]:
    """Multiply-adds of each layer of `ConvNet` for an image."""
    for side, channels, filters in ((SIDE, 3, 32), (SIDE, 32, 64), (SIDE // 2, 64, 128)):
        yield side**2 * 9 * channels * filters
    yield (SIDE // 4) ** 2 * 128 * 256
    yield 256 * 10


def resnet_layers() -> Iterator[int]:
    """Multiply-adds of each layer of `ResNet` for an image."""
    side, channels = SIDE, 64
    yield side**2 * 9 * 3 * channels
    for filters, stride in BLOCKS:
        side //= stride
        yield side**2 * 9 * channels * filters
        yield side**2 * 9 * filters * filters
        if stride > 1:
            yield side**2 * channels * filters
        channels = filters
    yield channels * 10


CONVNET = Work(tuple(convnet_layers()), 2_193_226, moments=2)
RESNET = Work(tuple(resnet_layers()), 11_173_962, moments=1)
CONFIGS = {
    config.name: config
    for config in (
        Config("convnet_b64", 64, CONVNET),
        Config("resnet18_b32", 32, RESNET),
        Config("convnet_infer_b1", 1, CONVNET, trains=False),
        Config("convnet_infer_b32", 32, CONVNET, trains=False),
        Config("resnet18_infer_b1", 1, RESNET, trains=False),
        Config("resnet18_infer_b32", 32, RESNET, trains=False),
    )
}
VISION = Programs(
    __file__,
    CONFIGS,
    quick=("convnet_b64", "convnet_infer_b1"),
    trained_by=(
        "torch:eager_fused",
        "torch:eager_fused_cl",
        "torch:compile",
        "torch:compile_cl",
        "jax:jit",
        "tinygrad:jit",
    ),
    inferred_by=(
        "torch:eager",
        "torch:eager_cl",
        "torch:compile",
        "torch:compile_cl",
        "jax:jit",
        "tinygrad:jit",
    ),
    title="Training steps and forward passes of networks of images",
)
# How the same networks are profiled.
NETWORKS = {"convnet_b64": "ConvNet", "resnet18_b32": "ResNet"}
OPTIMIZERS = {
    "convnet_b64": "adam:lr=0.001",
    "resnet18_b32": "sgd:lr=0.01,momentum=0.9,weight_decay=0.0005",
}
# Kinds of kernels that take a smaller share of the step are one row together.
SHOWN = 0.005


def one(name: str, seconds: float) -> None:
    """Measure ours in this process."""
    ask_for_priority()
    from noeira.nn import SGD, Adam

    config = CONFIGS[name]
    if config.work is CONVNET:
        network, optimizer = ConvNet, Adam(lr=1e-3)
    else:
        network, optimizer = ResNet, SGD(lr=0.01, momentum=0.9, weight_decay=5e-4)
    measure(config, network, optimizer, images(config.batch), seconds)


def memory(measured: Measured) -> Table:
    """What each process was at its largest, and what the plan of ours says of its part of that."""
    columns = columns_of(measured)
    return Table(
        "Memory of the same runs, MiB",
        ("", "planned", *columns),
        tuple(memory_row(config, found, columns) for config, found in measured.items()),
        ("The largest each whole process ever was, libraries and all.",),
    )


def memory_row(config: Config, found: Sequence[Outcome], columns: list[str]) -> tuple[str, ...]:
    """The most of all rounds."""
    ran = {o.name: o for o in found if o.runs}
    peaks = [
        digits(max(run.record["rss_peak_mb"] for run in ran[name].runs)) if name in ran else "–"
        for name in columns
    ]
    return config.name, digits(ran["noeira"].runs[0].record["planned_mb"]), *peaks


def kinds(config: Config, found: dict[str, Any]) -> Table:
    """A profile by kind of kernel, with the stages of those that have several."""
    same: dict[str, list[dict[str, Any]]] = defaultdict(list)
    step, head = found["step"], ("", "launches", "ms", "floor ms", "of the floor", "of the step")
    for each in found["launches"]:
        same[kind_of(each)].append(each)
    took = {kind: sum(each["median"] for each in launches) for kind, launches in same.items()}
    rows = list[tuple[str, ...]]()
    rest = list[dict[str, Any]]()
    for kind in sorted(took, key=lambda kind: -took[kind]):
        if took[kind] < SHOWN * step:
            rest += same[kind]
        else:
            rows += [kind_row(kind, same[kind], took[kind], step), *stages(same[kind], step)]
    rows.append(kind_row("others", rest, sum(each["median"] for each in rest), step))
    between = max(step - sum(took.values()), 0.0)
    rows.append(("between launches", "", milliseconds(between), "", "", percent(between / step)))
    rows.append(kind_row("step", found["launches"], step, step))
    title = f"A step of {config.name} by kind of kernel, {found['threads']} threads"
    return Table(title, head, tuple(rows), records=(found,))


def kind_of(launch: dict[str, Any]) -> str:
    """Its op; the first of several that one kernel does, with dots."""
    inner = launch["op"].removeprefix("fused[")
    return inner if inner == launch["op"] else f"{inner.partition(',')[0]}, …"


def kind_row(
    name: str, launches: Sequence[dict[str, Any]], took: float, step: float
) -> tuple[str, ...]:
    """A row for launches of one kind."""
    floor = sum(each["floor"] for each in launches)
    shares = percent(floor / took) if took else "–", percent(took / step)
    return name, str(len(launches)), milliseconds(took), milliseconds(floor), *shares


def stages(launches: Sequence[dict[str, Any]], step: float) -> Iterator[tuple[str, ...]]:
    """A row for each stage that takes a visible share of the step, if there are several."""
    took: dict[str, float] = defaultdict(float)
    for each in launches:
        for stage in each["stages"]:
            took[stage["name"]] += stage["seconds"]
    for name, seconds in took.items() if len(took) > 1 else ():
        if seconds >= SHOWN * step:
            yield f"· {name}", "", milliseconds(seconds), "", "", percent(seconds / step)


def tables(options: argparse.Namespace) -> Iterator[Table]:
    """Times and memory, a row for each configuration; a table by kind of kernel for each step."""
    measured = {config: VISION.outcomes(config, options) for config in VISION.chosen(options)}
    yield times(VISION, measured, options)
    yield memory(measured)
    for config in measured:
        if config.trains:
            words = "--input", f"3,{SIDE},{SIDE}", "--optimizer", OPTIMIZERS[config.name]
            yield kinds(config, profile(NETWORKS[config.name], config.batch, words, options))


def parser() -> argparse.ArgumentParser:
    """The command line."""
    return VISION.parser(__doc__)


if __name__ == "__main__":
    main(parser(), tables, one)
