"""What every test has: a cache of its own session, no network, exact golden texts; and fixtures
of several files.
"""

from __future__ import annotations

import difflib
import importlib.util
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import needs
import pytest
import swept_ops
from compiler_texts import nvrtc_or_skip
from hypothesis import HealthCheck, settings

from noeira.codegen.anchor import ANCHORS
from noeira.errors import VerifyError
from noeira.ir.op import OPS
from noeira.runtime.build.cache import Cache
from noeira.runtime.cuda.compiler import CudaCompiler

GOLDEN = Path(__file__).parent / "golden"

settings.register_profile(
    "noeira",
    derandomize=True,
    deadline=None,  # a first example may compile a kernel
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("noeira")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds --update-golden and --op."""
    parser.addoption(
        "--update-golden", action="store_true", help="write tests/golden/ anew from what is printed"
    )
    parser.addoption(
        "--op",
        action="append",
        default=[],
        metavar="NAME",
        help="only tests of this op, its slopes and its gradients; may be given several times",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Gives the session a cache folder, which the workers of pytest-xdist inherit and share; and
    tells the sweeps which ops are asked for.
    """
    try:
        swept_ops.choose(config.getoption("--op"))
    except VerifyError as error:
        raise pytest.UsageError(f"--op: {error}") from None
    if hasattr(config, "workerinput"):
        return
    cache = tempfile.mkdtemp(prefix="noeira-tests-")
    config.add_cleanup(lambda: shutil.rmtree(cache, ignore_errors=True))
    os.environ["NOEIRA_CACHE"] = cache
    os.environ["NOEIRA_OFFLINE"] = "1"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Makes `-k` find tests by the ops that they are marked with; leaves those that --op names."""
    left, out = list[pytest.Item](), list[pytest.Item]()
    for item in items:
        names = {name for mark in item.iter_markers("ops") for name in mark.args}
        item.extra_keyword_matches |= names
        taken = not config.getoption("--op") or any(map(swept_ops.is_chosen, names))
        (left if taken else out).append(item)
    if out:
        items[:] = left
        config.hook.pytest_deselected(items=out)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skips a test that needs what the machine has not."""
    for mark in item.iter_markers("needs"):
        if not needs.is_there(mark.args[0]):
            pytest.skip(f"there is no {mark.args[0]}")


@pytest.fixture
def define(tmp_path: Path) -> Iterator[Callable[[str], ModuleType]]:
    """Runs a text as a module of its own in `tmp_path`; ops and kernels that it defines go away."""
    modules = list[str]()

    def run(text: str) -> ModuleType:
        name = f"own_op_{len(modules)}"
        file = tmp_path / f"{name}.py"
        file.write_text(text)
        spec = importlib.util.spec_from_file_location(name, file)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        modules.append(name)
        spec.loader.exec_module(module)
        return module

    yield run
    for table in (OPS, ANCHORS):
        for name in [name for name, one in table.items() if type(one).__module__ in modules]:
            del table[name]  # type: ignore[arg-type]
    for name in modules:
        del sys.modules[name]


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    """An empty cache of the test's own."""
    return Cache(tmp_path / "cache")


@pytest.fixture(scope="module")
def nvrtc() -> CudaCompiler:
    """The CUDA compiler as a library; a test is skipped without."""
    return nvrtc_or_skip()


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[..., None]:
    """`golden(text)` compares with tests/golden/NAME.txt, NAME being the test's name.

    `golden(text, "part")`, for a test with several texts, with tests/golden/NAME.part.txt.
    """

    def check(text: str, part: str = "") -> None:
        __tracebackhide__ = True
        name = re.sub(r"[^\w.-]+", "_", request.node.name).strip("_") + (part and f".{part}")
        path = GOLDEN / f"{name}.txt"
        printed = text if text.endswith("\n") else text + "\n"
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(exist_ok=True)
            path.write_text(printed, encoding="utf-8")
            return
        again = f"If it is right, run `pytest --update-golden {request.node.nodeid}`."
        if not path.exists():
            pytest.fail(
                f"there is no golden/{path.name} for this text. {again}\n\n{printed}", False
            )
        expected = path.read_text(encoding="utf-8")
        if printed != expected:
            lines = difflib.unified_diff(
                expected.splitlines(),
                printed.splitlines(),
                f"golden/{path.name}",
                "now",
                lineterm="",
            )
            pytest.fail(f"the text has changed. {again}\n\n" + "\n".join(lines), False)

    return check
