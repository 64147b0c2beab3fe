"""The benchmarks' statistics, rounds and tables; the benchmarks themselves are no tests."""

from __future__ import annotations

import argparse
import importlib
import math
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from needs import needs_compiler

FOLDER = Path(__file__).parents[2] / "benchmarks"
HELP = """
import importlib, sys
sys.path.insert(0, sys.argv[1])
from run import BENCHMARKS
for name in ("run", *BENCHMARKS):
    text = importlib.import_module(name).parser().format_help()
    assert "--quick" in text and "--json" in text, name
"""


@pytest.fixture
def common(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(FOLDER)
    return importlib.import_module("common")


@pytest.fixture
def processes(common: ModuleType) -> ModuleType:
    return importlib.import_module("processes")


def timing(common: ModuleType, median: float, others: float = 0.0, used: float = 0.0) -> object:
    return common.Timing(median, median / 2, 2 * median, 10, others, 0.0, used)


def test_every_benchmark_has_the_common_options() -> None:
    subprocess.run([sys.executable, "-c", HELP, str(FOLDER)], check=True)


@pytest.mark.slow
@needs_compiler
def test_every_benchmark_runs() -> None:
    ended = subprocess.run(
        [sys.executable, FOLDER / "run.py", "--quick"], capture_output=True, text=True
    )
    assert ended.returncode == 0, ended.stderr


def test_statistics_of_calls(common: ModuleType) -> None:
    watch = common.Watch()
    watch.others, watch.stolen, watch.used = 0.01, 0.03, 1.9
    found = common.timing_of([10, 1, 9, 2, 8, 3, 7, 4, 6, 5], watch)
    assert (found.median, found.minimum, found.p90, found.calls) == (5.5, 1, 9, 10)
    assert found.disturbance == pytest.approx(0.04)
    assert found.used == 1.9
    assert found.disturbed
    assert not common.timing_of([1.0]).disturbed


def test_rounds_that_were_disturbed_do_not_count(common: ModuleType) -> None:
    rounds = [timing(common, 1.0, others=0.5), timing(common, 3.0), timing(common, 2.0)]
    found = common.combined(rounds)
    assert (found.median, found.minimum, found.p90, found.calls) == (2.0, 1.0, 4.0, 20)
    worst = [timing(common, 1.0, others=0.5), timing(common, 4.0, others=0.4)]
    assert common.combined(worst).median == 4.0
    shared = [timing(common, 2.0, used=1.9), timing(common, 1.0, used=1.0)]
    assert common.combined(shared).median == 2.0


def test_a_disturbed_measurement_is_repeated(
    common: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(common, "PAUSE_SECONDS", 0.0)
    shares = iter([0.5, 0.2, 0.0, 0.0])

    def measure() -> argparse.Namespace:
        return argparse.Namespace(timing=timing(common, 1.0, others=next(shares)))

    assert common.undisturbed(measure, tries=2).timing.others == 0.2
    assert common.undisturbed(measure, tries=5).timing.others == 0.0
    assert next(shares) == 0.0


def test_calls_are_timed_in_batches(common: ModuleType) -> None:
    asked = []

    def run(count: int) -> int:
        asked.append(count)
        return 1

    found = common.timed_batches(run, 0.005)
    assert asked[:2] == [1, 1]
    assert found.calls <= len(asked) and found.minimum <= found.median <= found.p90


def test_digits(common: ModuleType) -> None:
    texts = [common.digits(x) for x in (0, 0.04812, 1.005, 12.34, 999.6, 1234.5)]
    assert texts == ["0", "0.0481", "1.00", "12.3", "1,000", "1,234"]
    assert common.geometric_mean([0.5, 2.0]) == pytest.approx(1)


def test_tables(common: ModuleType) -> None:
    table = common.Table("Times", ("", "ms"), (("short", "1.00"), ("longer", "12.3")), ("A note.",))
    assert table.plain() == "Times\n            ms\n  short   1.00\n  longer  12.3\n  A note."
    assert "| | ms |\n|---|--:|\n| short | 1.00 |" in table.markdown().replace("|  |", "| |")


def test_tables_are_put_in_their_place_on_a_page(common: ModuleType, tmp_path: Path) -> None:
    run = importlib.import_module("run")
    page = tmp_path / "page.md"
    page.write_text("Before.\n\n<!-- a -->\nold\n<!-- end of a -->\n\nAfter.\n")
    table = common.Table("New", ("", "ms"), (("row", "1.00"),))
    for _ in range(2):
        run.Page(page).put("a", [table])
        run.Page(page).put("b", [table])
    text = f"Before.\n\n<!-- a -->\n\n{table.markdown()}\n\n<!-- end of a -->\n\nAfter.\n"
    assert page.read_text() == text


def test_shapes_of_convolutions_are_read(common: ModuleType) -> None:
    shape = importlib.import_module("convolutions").Shape.of("8,3,64,224,7,2")
    assert str(shape) == "8 x 3→64 @ 224, 7x7 / 2"
    assert shape.geometry.out == (112, 112) and not shape.has_image_gradient
    assert shape.geometry.flops == 2 * 8 * 112**2 * 64 * 3 * 49
    grouped = importlib.import_module("convolutions").Shape.of("8,64,64,16,3,1,64")
    assert str(grouped) == "8 x 64→64 @ 16, 3x3, 64 groups"
    assert grouped.types("f32")["weight"].shape == (3, 3, 1, 64)


def test_the_work_of_networks_of_images_is_theirs(common: ModuleType) -> None:
    vision, networks = (importlib.import_module(name) for name in ("vision", "networks"))
    for work, network in ((vision.CONVNET, networks.ConvNet), (vision.RESNET, networks.ResNet)):
        assert sum(math.prod(p.shape) for p in network.parameters().values()) == work.parameters
    assert vision.CONFIGS["resnet18_infer_b1"].flops == 2 * sum(vision.RESNET.layers)


def side(processes: ModuleType, name: str, log: Path, text: str) -> object:
    command = f"open({str(log)!r}, 'a').write({name!r}); print({text!r})"
    return processes.Side(name, (sys.executable, "-c", command))


def test_sides_run_in_turn_and_a_failure_is_said(processes: ModuleType, tmp_path: Path) -> None:
    log = tmp_path / "log"
    result = 'RESULT {"ms_med": 2.0, "ms_min": 1.0, "ms_p90": 3.0, "n": 7}'
    sides = [side(processes, "a", log, result), side(processes, "b", log, result)]
    missing = processes.Side("c", (sys.executable, str(tmp_path / "c_peer.py")))
    found = processes.interleaved([*sides, missing], rounds=2)
    assert log.read_text() == "abab"
    assert [len(outcome.runs) for outcome in found] == [2, 2, 0]
    assert found[0].timing.median == pytest.approx(0.002)
    assert processes.reasons(found)[0].startswith("c did not run: ")
    assert "c_peer.py" in processes.reasons(found)[0]


def test_the_environment_of_others_is_clean(
    processes: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OPENBLAS_CORETYPE", "PYTHONDONTWRITEBYTECODE", "KEPT"):
        monkeypatch.setenv(name, "1")
    environment = processes.clean_environment()
    assert "KEPT" in environment
    assert not {"OPENBLAS_CORETYPE", "PYTHONDONTWRITEBYTECODE"} & environment.keys()
