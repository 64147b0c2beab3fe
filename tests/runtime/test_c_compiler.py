"""Finding a compiler: in which order, what it is asked, what is remembered of that."""

from __future__ import annotations

import argparse
import importlib.util
import os
import re
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import noeira
from noeira.codegen.c.isa import ISAS
from noeira.codegen.language import C
from noeira.codegen.source import Source
from noeira.commands import doctor
from noeira.errors import CompilerError
from noeira.machine.limits import measure_limits
from noeira.nn import Linear
from noeira.runtime.build import compiler_search
from noeira.runtime.build.cache import Cache
from noeira.runtime.build.library import build_library, load
from noeira.runtime.c import compiler as c_compiler
from noeira.runtime.c.builder import CBuilder
from noeira.runtime.c.compiler import find_compiler, require_compiler

has_compiler = pytest.mark.skipif(
    not any(map(shutil.which, ("cc", "gcc", "clang"))), reason="there is no C compiler"
)
TARGETS = ("cpu", "reference")
has_zig = pytest.mark.skipif(
    importlib.util.find_spec("ziglang") is None, reason="ziglang is not installed"
)
TEXT = """\
#include <math.h>
float noeira_exp(float x);
float noeira_exp(float x) { return expf(x) + 1.0f; }
"""


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    forget(monkeypatch)
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("NOEIRA_CACHE", str(tmp_path / "cache"))


def forget(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a new process begins."""
    monkeypatch.setattr(c_compiler, "SEARCH", replace(c_compiler.SEARCH, found={}))


def script(path: Path, text: str) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def wrapper(path: Path, log: Path, refuse: str = "") -> Path:
    """A compiler that notes its calls, and refuses some flags."""
    real = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    checks = f'case " $* " in {refuse}) echo "unknown flag" >&2; exit 1;; esac\n' if refuse else ""
    return script(path, f'echo "$*" >> {log}\n{checks}exec {real} "$@"')


@has_compiler
def test_a_compiler_is_found_and_builds():
    compiler = require_compiler()
    assert compiler.isa in ISAS.values()
    assert {"-O3", "-ffp-contract=off", "-shared", "-std=gnu11"} <= set(compiler.flags)
    assert not any("fast-math" in flag for flag in compiler.flags)
    assert re.search(r"\d+\.\d+", compiler.version)
    assert compiler.has_threads == ("-pthread" in compiler.flags)
    assert compiler == find_compiler()


@has_compiler
def test_the_probe_is_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    log = tmp_path / "calls"
    monkeypatch.setenv("CC", f"{wrapper(tmp_path / 'my cc', log)}".replace(" ", "\\ "))
    cache = Cache(tmp_path / "cache")
    first = require_compiler(cache)
    calls = sorted(log.read_text().splitlines())
    assert calls
    forget(monkeypatch)
    assert require_compiler(cache) == first
    assert sorted(log.read_text().splitlines()) == calls, (
        "the second process does not run the compiler"
    )
    for note in (tmp_path / "cache" / "notes").glob("*/*"):
        note.write_bytes(note.read_bytes()[:-9])
    forget(monkeypatch)
    assert require_compiler(cache) == first
    assert sorted(log.read_text().splitlines()) == sorted(calls * 2), "a damaged note is as none"


@has_compiler
def test_another_compiler_at_the_same_path_is_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    path = wrapper(tmp_path / "cc", tmp_path / "calls")
    monkeypatch.setenv("CC", str(path))
    first = require_compiler()
    os.utime(path, ns=(1, 1))
    assert require_compiler().identity != first.identity
    monkeypatch.setenv("CC", f"{path} -DX=1")
    assert require_compiler().command == (str(path), "-DX=1")


@has_compiler
@pytest.mark.parametrize(
    ("refuse", "missing"),
    [
        ('*" -march=native "*', {"-march=native"}),
        ('*"=native "*', {"-march=native", "-mcpu=native"}),
        ('*" -fPIC "*|*" -Wextra "*', {"-fPIC", "-Wextra"}),
        ('*" -pthread "*', {"-pthread"}),
    ],
)
def test_refused_flags_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refuse: str, missing: set[str]
):
    monkeypatch.setenv("CC", str(wrapper(tmp_path / "cc", tmp_path / "calls", refuse)))
    compiler = require_compiler()
    flags = set(compiler.flags)
    assert not flags & missing
    assert set(c_compiler.REQUIRED_FLAGS) <= flags
    assert "-Wall" in flags
    if "-mcpu=native" in missing:
        assert compiler.isa.name in ("plain", "neon")


@has_compiler
def test_a_compiler_that_contracts_is_no_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = wrapper(tmp_path / "cc", tmp_path / "calls", '*"contract=off"*')
    monkeypatch.setenv("CC", str(path))
    with pytest.raises(CompilerError, match=r"cannot be used: unknown flag"):
        find_compiler()


@has_compiler
def test_the_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    folder = tmp_path / "bin"
    real = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    path = os.environ["PATH"]
    script(folder / "cc", "exit 1")
    monkeypatch.setenv("PATH", str(folder))
    script(folder / "gcc", f'PATH="{path}" exec {real} "$@"')
    script(folder / "clang", f'PATH="{path}" exec {real} "$@"')
    assert require_compiler().command == ("gcc",), "a cc that does not work is passed over"
    monkeypatch.setenv("CC", "clang -g")
    assert require_compiler().command == ("clang", "-g")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("noeira-no-such-compiler -x", "there is no program noeira-no-such-compiler"),
        ("false", "CC is false, which cannot be used: it ended with status 1"),
        ("cc 'open", "No closing quotation"),
    ],
)
def test_a_useless_choice_is_an_error(monkeypatch: pytest.MonkeyPatch, text: str, says: str):
    monkeypatch.setenv("CC", text)
    with pytest.raises(CompilerError, match=says):
        find_compiler()


def without_compilers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    monkeypatch.setattr(compiler_search, "ziglang_program", lambda: None)


def test_without_a_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    without_compilers(tmp_path, monkeypatch)
    assert find_compiler() is None
    with pytest.raises(CompilerError) as caught:
        require_compiler()
    for words in ("apt install", "dnf install", "xcode-select", "pip install ziglang", "CC"):
        assert words in str(caught.value)


def test_what_was_tried_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    without_compilers(tmp_path, monkeypatch)
    script(tmp_path / "empty" / "gcc", "echo no stdio.h; exit 1")
    with pytest.raises(CompilerError, match=r"gcc: no stdio\.h"):
        require_compiler()


@has_compiler
def test_an_unwritable_cache(monkeypatch: pytest.MonkeyPatch):
    cache = Cache("/proc/noeira")
    library = build_library(Source(C, "exp", TEXT, ""), CBuilder(require_compiler(cache)), cache)
    assert library.built


@has_zig
def test_ziglang_serves_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    import ctypes

    monkeypatch.setenv("PATH", str(tmp_path))
    compiler = require_compiler()
    assert compiler.command == (sys.executable, "-m", "ziglang", "cc")
    assert compiler.has_threads
    cache = Cache(tmp_path / "cache")
    function = load(build_library(Source(C, "exp", TEXT, ""), CBuilder(compiler), cache)).noeira_exp
    function.restype, function.argtypes = ctypes.c_float, [ctypes.c_float]
    assert function(0.0) == 2.0


def test_the_processor_is_told_the_same_twice():
    assert compiler_search.processor() == compiler_search.processor()
    assert "MHz" not in compiler_search.processor()


def examine(capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    parser = argparse.ArgumentParser()
    doctor.add_arguments(parser)
    code = doctor.run(parser.parse_args([]))
    return code, capsys.readouterr().out


@has_compiler
def test_doctor(capsys: pytest.CaptureFixture[str]):
    code, text = examine(capsys)
    assert code == 0, text
    assert "ok  a program     built, loaded and called\n" in text
    for name in ("Python", "noeira", "numpy", "C compiler", "cache", "threads", "MNIST"):
        assert re.search(rf"^(ok|--)  {name} ", text, re.MULTILINE), text


def test_doctor_without_a_compiler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    without_compilers(tmp_path, monkeypatch)
    code, text = examine(capsys)
    assert code == 0, "the reference still runs"
    assert "--  C compiler    none: programs run by the reference" in text
    assert "pip install ziglang" in text


def test_doctor_with_a_wrong_setting(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setenv("NOEIRA_THREADS", "many")
    code, text = examine(capsys)
    assert code == 1
    assert "!!  setting       NOEIRA_THREADS=many: expected a whole number of at least 1." in text
    assert "ok  cache" in text and "ok  threads" in text, "everything else is looked at too"
    assert os.environ["NOEIRA_THREADS"] == "many"


def test_doctor_with_files_that_cannot_be_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    (tmp_path / "file").write_text("nonsense\n")
    monkeypatch.setenv("NOEIRA_CHOICES", str(tmp_path / "file"))
    monkeypatch.setenv("NOEIRA_DUMP", str(tmp_path / "file" / "below"))
    code, text = examine(capsys)
    assert code == 1 and "!!  setting       NOEIRA_CHOICES: " in text
    assert f"!!  setting       NOEIRA_DUMP={tmp_path}/file/below cannot be written: Not a d" in text
    monkeypatch.setenv("NOEIRA_DUMP", str(tmp_path / "new" / "folder"))
    monkeypatch.delenv("NOEIRA_CHOICES")
    code, text = examine(capsys)
    assert code == 0 and "ok  dumps         " in text and not (tmp_path / "new").exists()


def test_a_variable_that_is_no_setting_is_said_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    monkeypatch.setenv("NOEIRA_THREDS", "2")
    for _ in range(2):
        noeira.compile(Linear[3, 2], target="reference")
    said = [one.getMessage() for one in caplog.records if "NOEIRA_THREDS" in one.getMessage()]
    assert said == ["NOEIRA_THREDS is no setting; did you mean NOEIRA_THREADS?"]


@has_compiler
def test_a_compiler_without_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    refuse = '*" -pthread "*'
    monkeypatch.setenv("CC", str(wrapper(tmp_path / "cc", tmp_path / "calls", refuse)))
    code, text = examine(capsys)
    assert code == 0, text
    assert "--  POSIX threads no: programs run on one thread" in text
    assert measure_limits(2).threads == 1
    x = np.ones((64, 300), np.float32)
    alone, reference = (noeira.compile(Linear[300, 200], batch=64, target=t) for t in TARGETS)
    np.testing.assert_allclose(alone.forward(x), reference.forward(x), rtol=1e-4, atol=1e-5)


@has_compiler
def test_doctor_with_a_setting_that_there_is_not(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setenv("NOEIRA_THREAD", "2")
    monkeypatch.setenv("NOEIRA_XYZ", "2")
    code, text = examine(capsys)
    assert code == 0
    assert "--  setting       NOEIRA_THREAD is no setting; did you mean NOEIRA_THREADS?" in text
    assert "--  setting       NOEIRA_XYZ is no setting; there are NOEIRA_THREADS," in text


def test_doctor_names_what_cuda_needs(capsys: pytest.CaptureFixture[str]):
    _, text = examine(capsys)
    for name in ("C++ compiler", "CUDA compiler", "pycuda"):
        assert re.search(rf"^(ok|--)  {re.escape(name)} ", text, re.MULTILINE), text


def test_doctor_with_a_useless_choice(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setenv("CC", "false")
    code, text = examine(capsys)
    assert code == 1
    assert "!!  C compiler    CC is false" in text
