"""The profile: machine limits, floors by hand, measured launches, table, JSON, picture."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import staged
from needs import needs_compiler

from noeira.codegen.c.render import render_c
from noeira.codegen.sharing import shared_kernels
from noeira.ir.plan import Plan
from noeira.machine.cache_sizes import Cache, Level, cache_levels, data_caches, processors
from noeira.machine.limits import Bandwidth, Limits, measure_limits
from noeira.nn import SGD, Linear, LinearReLU, Sequential
from noeira.report import roofline
from noeira.report.explain import explained, symbols
from noeira.report.profile import COMPUTE, OVERHEAD, Profile, micro, percent, profile_of, rate
from noeira.report.reuse import Moved, traffic
from noeira.report.table import short
from noeira.runtime.c.compiler import find_compiler
from noeira.runtime.c.timed_entry import Samples, samples_of
from noeira.stages import Stages, stages_of

pytest_plugins = ("command_line",)

TINY = ["--batch", "5", "--seconds", "0.02"]

LIMITS = Limits(
    "avx2",
    2,
    {"f32": 200.0, "f64": 100.0},
    (Bandwidth("L1", 10_000, 100.0, 50.0), Bandwidth("memory", 1 << 40, 10.0, 5.0)),
    handover=0.0,
    exchange=20.0,
)


def gemm(batch: int, dtype: str = "f32", last: type = Linear[64, 32]) -> Stages:
    """The forward pass of one product."""
    net = Sequential[last,]
    return stages_of(net, batch=batch, loss=None, dtype=dtype, isa="avx2", entry="forward")


def samples(plan: Plan, seconds: float = 1e-6) -> Samples:
    """Three steps: the first stages twice as long as the others, half of all spent waiting."""
    count = sum(len(call.choice.stages) for call in plan.calls)
    stages = np.full((3, count), seconds) * np.array([[1.0], [1.1], [0.9]])
    stages[:, 0] *= 2
    return Samples(stages, stages / 2, np.array([4e-6, 5e-6, 6e-6]), 2)


def profiled(stages: Stages, limits: Limits = LIMITS) -> Profile:
    """A profile with the times of `samples`."""
    plan, target = stages.plan, stages.target
    launches = explained(plan, symbols(shared_kernels([plan], target)), (), target).launches
    return profile_of(plan, launches, samples(plan), limits)


def test_seconds_of_traffic():
    level = LIMITS.bandwidths[0]
    assert level.seconds(1000, 0) == pytest.approx(1000 / 100e9)
    assert level.seconds(1000, 1000) == pytest.approx(2000 / 50e9)
    assert level.seconds(1000, 400) == pytest.approx(600 / 100e9 + 800 / 50e9)
    assert level.seconds(0, 1000) == pytest.approx(1000 / 50e9)


def test_the_level_is_the_first_that_holds_the_working_set():
    assert [LIMITS.bandwidth(n).level for n in (1, 10_000, 10_001, 1 << 50)] == [
        "L1",
        "L1",
        "memory",
        "memory",
    ]


def test_a_floor_is_the_longer_of_arithmetic_and_traffic():
    assert LIMITS.floor_seconds(4000, 1000) == pytest.approx(4000 / 200e9)
    assert LIMITS.floor_seconds(4000, 1000, dtype="f64") == pytest.approx(4000 / 100e9)
    assert LIMITS.floor_seconds(100, 1000) == pytest.approx(1000 / 100e9)
    assert LIMITS.floor_seconds(100, 1000, working_set=20_000) == pytest.approx(1000 / 10e9)


@pytest.mark.parametrize(("dtype", "size", "peak"), [("f32", 4, 200e9), ("f64", 8, 100e9)])
def test_the_floor_of_a_product(dtype: str, size: int, peak: float):
    found = profiled(gemm(16, dtype)).launches[0]
    flops = 2 * 16 * 64 * 32 + 16 * 32
    read, written = size * (16 * 64 + 64 * 32 + 32), size * 16 * 32
    assert found.launch.flops == flops and found.dtype == dtype
    # All it touches is touched again by the next step: beyond the cache of 10,000 bytes.
    moving = (read - written) / 10e9 + 2 * written / 5e9
    assert found.floor == pytest.approx(max(flops / peak, moving), rel=1e-9)
    assert found.bound == "memory"
    fast = Limits("avx2", 2, LIMITS.peak, (Bandwidth("L1", 1 << 30, 1e6, 1e6),) * 2, 0.0, 1.0)
    found = profiled(gemm(16, dtype), fast).launches[0]
    assert found.floor == pytest.approx(flops / peak) and found.bound == COMPUTE


def test_a_launch_of_nothing_is_bound_by_overhead():
    found = profiled(stages_of(Linear[4, 3], batch=2, isa="avx2"))
    assert {one.bound for one in found.launches if one.launch.op == "count"} == {OVERHEAD}


def test_where_the_bytes_of_a_launch_were_last_touched():
    net = Sequential[Linear[8, 16], Linear[16, 4]]
    plan = stages_of(net, batch=2, loss=None, isa="avx2").plan
    first, second = traffic(plan, 1 << 20)
    x, middle, y = 4 * 2 * 8, 4 * 2 * 16, 4 * 2 * 4
    weights = [4 * (8 * 16 + 16), 4 * (16 * 4 + 4)]
    room = [call.choice.workspace for call in plan.calls]
    everything = x + weights[0] + middle + weights[1] + y + sum(room)
    touched = x + weights[0] + middle + room[0], middle + weights[1] + y + room[1]
    # Workspaces may lie where other values do, and then count once.
    assert sum(part.read for part in first) == x + weights[0]
    assert sum(part.written for part in first) == middle
    assert max(part.working_set for part in first) <= everything
    near, far = second
    assert near.read == middle and near.working_set >= max(touched) - sum(room)
    assert far == Moved(weights[1], y, far.working_set)
    assert near.working_set <= far.working_set <= everything


def test_beyond_the_largest_cache_nothing_is_followed():
    plan = stages_of(LinearReLU[64, 64], batch=8, isa="avx2").plan
    exact, short_sighted = traffic(plan, 1 << 40), traffic(plan, 1000)
    for one, other in zip(exact, short_sighted, strict=True):
        for part in ("read", "written"):
            total = sum(getattr(m, part) for m in one)
            assert sum(getattr(m, part) for m in other) == pytest.approx(total)
        assert all(m.working_set > 1000 for m in other[1:])


def test_a_gather_moves_its_rows():
    from noeira.ir.op import op
    from noeira.ir.types import TensorType

    take = op("take")
    types = TensorType("f32", (1000, 7)), TensorType("i32", (1000,)), TensorType("i64", ())
    cost = take.cost(take.Attrs(rows=5), *types)
    assert (cost.bytes_read, cost.bytes_written) == (5 * 7 * 4 + 5 * 4 + 8, 5 * 7 * 4)


def test_stamps_become_times():
    # One step of two stages, in two shares: when it began, and for each stage how long a share
    # took and when all were done.
    stamps = np.array([[[100, 10, 144, 16, 172]], [[0, 36, 0, 26, 0]]])
    found = samples_of(stamps, np.array([1e-6]))
    assert found.threads == 2
    assert found.stages == pytest.approx(1e-9 * np.array([[44, 28]]))
    assert found.work == pytest.approx(1e-9 * np.array([[(10 + 36) / 2, (16 + 26) / 2]]))


def test_the_numbers_of_a_profile():
    found = profiled(stages_of(Sequential[Linear[4, 3], Linear[3, 2]], batch=2, isa="avx2"))
    count = len(found.launches)
    assert found.launches[0].median == pytest.approx(2e-6)
    assert found.launches[0].minimum == pytest.approx(1.8e-6)
    assert found.launches[1].median == pytest.approx(1e-6)
    assert found.sum == pytest.approx((count + 1) * 1e-6)
    assert sum(one.share for one in found.launches) == pytest.approx(1)
    assert all(one.wait == pytest.approx(0.5) for one in found.launches)
    assert found.waiting == pytest.approx(found.sum / 2)
    assert (found.step, found.steps, found.threads) == (5e-6, 3, 2)
    assert found.launches[0].gflops == pytest.approx(1e-9 * found.launches[0].launch.flops / 2e-6)
    by_time = found.text("time").splitlines()
    assert by_time[4].split()[:2] == ["0", "k00_linear"]


@pytest.mark.parametrize("width", [60, 80, 100, 200])
def test_a_narrow_terminal_is_spared_columns(width: int):
    found = profiled(stages_of(Sequential[Linear[4, 3], Linear[3, 2]], batch=2, isa="avx2"))
    text = found.text(width=width)
    assert max(map(len, text.splitlines())) <= width
    for name in ("kernel", "median µs", "reached", "bound by", "in all"):
        assert name in text
    assert ("min µs" in text) == (width == 200)


def test_stages_of_a_launch_are_listed():
    found = profiled(stages_of(Linear[40, 500], batch=600, isa="avx2"))
    several = [one for one in found.launches if len(one.stages) > 1]
    assert several and all(
        one.launch.stages == tuple(s.name for s in one.stages) for one in several
    )
    one = several[0]
    parts = ", ".join(f"{stage.name} {micro(stage.seconds)} µs" for stage in one.stages)
    assert f"└ {parts}" in str(found)
    assert one.median == pytest.approx(sum(stage.seconds for stage in one.stages))


def test_only_the_timed_unit_takes_times():
    stages = stages_of(LinearReLU[4, 3], batch=2, isa="avx2")
    plan, target = stages.plan, stages.target
    plain = render_c("net", [plan], target).text
    timed = render_c("net", [plan], target, timed=True).text
    assert "stamps[" not in plain and timed.count("stamps[") == 3
    # The program's own entry is in both, and the same.
    entry = plain[plain.index(": up to `steps`") : plain.index("// The plans")]
    assert entry.strip() in timed
    assert timed.count(": up to `steps`") == 2


def test_numbers_as_people_read_them():
    counts = (0, 812, 999, 1000, 4_074, 40_140_800, 999_999, 10**13)
    assert " ".join(map(short, counts)) == "0 812 999 1.00k 4.07k 40.1M 1.00M 10.0T"
    times = (0, 8e-8, 9.994e-6, 2.431e-4, 1.2)
    assert " ".join(map(micro, times)) == "0.00 0.08 9.99 243.1 1,200,000.0"
    assert [percent(s) for s in (0, 0.004, 0.12, 1)] == ["0 %", "0.4 %", "12 %", "100 %"]
    assert [rate(v) for v in (0.04, 35.64, 236.4)] == ["0.0", "35.6", "236"]


def test_cache_levels_are_those_of_all_threads():
    caches = (Cache(1, 32 << 10, 2), Cache(2, 1 << 20, 2), Cache(3, 32 << 20, 16))
    one = (Level("L1", 32 << 10), Level("L2", 1 << 20), Level("L3", 32 << 20))
    assert cache_levels(1, caches) == one
    assert [level.bytes for level in cache_levels(5, caches)] == [96 << 10, 3 << 20, 32 << 20]
    # The third level holds no more than the second ones together.
    small = (*caches[:2], Cache(3, 1 << 20, 2))
    assert [level.name for level in cache_levels(64, small)] == ["L1", "L2"]
    assert [level.name for level in cache_levels(2, ())] == ["L1", "L2", "L3"]


def test_caches_as_linux_describes_them(tmp_path: Path):
    for index, texts in enumerate(
        [
            ("Data", "1", "48K", "0,32"),
            ("Instruction", "1", "32K", "0"),
            ("Unified", "2", "2M", "?"),
        ]
    ):
        folder = tmp_path / f"index{index}"
        folder.mkdir()
        names = ("type", "level", "size", "shared_cpu_list")
        for name, text in zip(names, texts, strict=True):
            (folder / name).write_text(f"{text}\n")
    # What cannot be read is left out.
    assert list(data_caches(tmp_path)) == [Cache(1, 48 << 10, 2)]
    assert [processors(text) for text in ("0", "0-3", "0-3,8,10-11")] == [1, 4, 7]


@needs_compiler
def test_limits_of_this_machine():
    found = measure_limits(1)
    assert found.threads == 1
    # A vector unit does at least as many multiply-adds in f32.
    assert found.peak["f32"] > 0.9 * found.peak["f64"] > 0
    assert [level.level for level in found.bandwidths][-1] == "memory"
    sizes = [level.bytes for level in found.bandwidths]
    assert sizes == sorted(sizes)
    assert all(level.read > 0 and level.copy > 0 for level in found.bandwidths)
    assert 0 < found.handover < 1e-3 and found.exchange > 0
    assert measure_limits(10_000).threads <= 10_000


@needs_compiler
def test_launches_are_the_calls_of_the_plan(call: Callable[..., str], folder: Path):
    found = json.loads(call("profile", "net.py:Plain", *TINY, "--optimizer", "sgd", "--json"))
    plan = json.loads(
        call("explain", "net.py:Plain", "--batch", "5", "--optimizer", "sgd", "--json")
    )
    for key in ("number", "kernel", "op", "flops", "bytes"):
        assert [one[key] for one in found["launches"]] == [one[key] for one in plan["launches"]]
    assert found["steps"] >= 5 and found["threads"] >= 1
    for one in found["launches"]:
        assert 0 < one["minimum"] <= one["median"] and one["floor"] >= 0 and 0 <= one["wait"] <= 1
        assert sum(stage["seconds"] for stage in one["stages"]) > 0
    # Medians of launches add up to about the median of steps.
    assert 0.3 < found["sum"] / found["timed_step"] < 2
    assert found["step"] > 0
    assert {"peak", "bandwidths", "handover", "exchange"} <= set(found["limits"])


@needs_compiler
def test_the_table(call: Callable[..., str]):
    text = call("profile", "net.py:Joined", *TINY, "--threads", "1", "--isa", "plain")
    first, limits, _, head, *rest = text.splitlines()
    assert first.startswith("@joined.step for c plain, 1 thread: 13 launches, ")
    assert limits.startswith("limits: ") and "memory" in limits
    assert head.split()[:4] == ["#", "kernel", "op", "path"]
    assert rest[0].split()[:2] == ["0", "k00_linear_relu"]
    assert "µs as a program runs it" in text and "`reached` is" in text


@needs_compiler
def test_dumped_stages(call: Callable[..., str], dumped: Path):
    for name in ("trace", "plan"):
        assert "@joined.step for" in call("profile", staged(name), "--seconds", "0.02")
    message = call("profile", staged("plan"), "--choices", "x", code=2)
    assert f"--choices was decided when {staged('plan')} was made; it goes with .nir" in message


@needs_compiler
def test_other_entries_and_a_step_that_is_not_ok(call: Callable[..., str]):
    assert "@plain.forward" in call("profile", "net.py:Plain", *TINY, "--entry", "forward")
    text = call("profile", "net.py:Plain", *TINY, "--optimizer", "sgd:lr=1e30")
    assert "@plain.step" in text


@needs_compiler
def test_errors(call: Callable[..., str]):
    assert "there is no file net.plan" in call("profile", "net.plan", code=2)
    assert "expected a file .nir, .plan, or a network" in call("profile", "net.py", code=2)
    assert "--seconds must be a number of seconds above 0" in call(
        "profile", "net.py:Plain", "--seconds", "0", code=2
    )
    assert "--threads must be a whole number of at least 1" in call(
        "profile", "net.py:Plain", "--threads", "0", code=2
    )
    compiler = find_compiler()
    assert compiler is not None
    other = "avx512" if compiler.isa.name == "neon" else "neon"
    assert f" cannot run {other}" in call("profile", "net.py:Plain", "--isa", other, code=2)


def test_without_matplotlib(call: Callable[..., str], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    message = call("profile", "net.py:Plain", "--png", "roofline.png", code=1)
    assert message == 'noeira: the roofline needs matplotlib: pip install "noeira[viz]"\n'


def test_no_picture_ends_so(call: Callable[..., str]):
    pytest.importorskip("matplotlib")
    message = call("profile", "net.py:Plain", "--png", "roofline.txt", code=1)
    assert message == (
        "noeira: roofline.txt cannot be drawn: let its name end in .png or .svg or .pdf\n"
    )


def test_the_picture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    pytest.importorskip("matplotlib")
    from matplotlib.figure import Figure

    from noeira.errors import NoeiraError

    kept: list[Any] = []
    save = Figure.savefig
    monkeypatch.setattr(Figure, "savefig", lambda self, *a: (kept.append(self), save(self, *a)))
    found = profiled(
        stages_of(
            Sequential[LinearReLU[64, 32], Linear[32, 10]], batch=16, optimizer=SGD, isa="avx2"
        )
    )
    roofline.draw(found, str(tmp_path / "roofline.png"))
    assert (tmp_path / "roofline.png").read_bytes().startswith(b"\x89PNG")
    (axes,) = kept[0].axes
    texts = [text.get_text() for text in axes.texts]
    assert "peak f32: 200 GFLOP/s" in texts and "L1: 100 GB/s" in texts
    names = [text for text in texts if text.startswith("0 linear + relu")]
    assert len(names) == 1
    assert "@sequential.step for c avx2, 2 threads" in axes.get_title(loc="left")
    roofline.draw(found, str(tmp_path / "new" / "roofline.png"))
    assert (tmp_path / "new" / "roofline.png").is_file()
    with pytest.raises(NoeiraError, match="cannot be written"):
        roofline.draw(found, str(tmp_path / "roofline.png" / "below.png"))
    with pytest.raises(NoeiraError, match="cannot be drawn"):
        roofline.draw(found, str(tmp_path / "roofline.docx"))
