"""The cache: damage, refusing disks, many processes, sudden death, edits, and its bound."""

from __future__ import annotations

import errno
import json
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from built_units import damage_by_truncation, unit

from noeira.commands import cache as cache_command
from noeira.config import TEMPLATES
from noeira.disk import replace_file
from noeira.errors import NoeiraError
from noeira.runtime.build import cache as cache_module
from noeira.runtime.build.cache import Cache, open_cache
from noeira.runtime.build.cache_entry import CHECKSUMS, digest_of
from noeira.runtime.build.library import build_library, load
from noeira.runtime.c.builder import CBuilder
from noeira.runtime.c.compiler import Compiler, find_compiler

KEY = digest_of("a key")


FILES: dict[str, bytes | Path] = {"unit.c": b"int x;\n", "unit.so": bytes(range(256)) * 9}


def damage_of_a_bit(folder: Path) -> None:
    data = bytearray((folder / "unit.so").read_bytes())
    data[17] ^= 4
    (folder / "unit.so").write_bytes(data)


def damage_of_the_checksums(folder: Path) -> None:
    text = (folder / CHECKSUMS).read_text()
    (folder / CHECKSUMS).write_text(text.replace("unit.so", "unit.sO"))


def damage_by_a_lost_line(folder: Path) -> None:
    lines = (folder / CHECKSUMS).read_text().splitlines(keepends=True)
    (folder / CHECKSUMS).write_text("".join(line for line in lines if "unit.so" not in line))


DAMAGES: dict[str, Callable[[Path], object]] = {
    "truncated": damage_by_truncation,
    "bit": damage_of_a_bit,
    "checksums": damage_of_the_checksums,
    "line": damage_by_a_lost_line,
    "binary checksums": lambda folder: (folder / CHECKSUMS).write_bytes(b"\xff\0\xfe"),
    "empty checksums": lambda folder: (folder / CHECKSUMS).write_bytes(b""),
    "no checksums": lambda folder: (folder / CHECKSUMS).unlink(),
    "no library": lambda folder: (folder / "unit.so").unlink(),
    "no source": lambda folder: (folder / "unit.c").unlink(),
    "empty source": lambda folder: (folder / "unit.c").write_bytes(b""),
    "zeros in the source": lambda folder: (folder / "unit.c").write_bytes(bytes(7)),
    "a folder for a file": lambda folder: [
        (folder / "unit.so").unlink(),
        (folder / "unit.so").mkdir(),
    ][0],
}


def test_an_entry_comes_back_as_it_was_put(cache: Cache, tmp_path: Path):
    path = tmp_path / "plan"
    path.write_bytes(b"the plan")
    assert cache.get(KEY) is None
    put = cache.put(KEY, {**FILES, "unit.plan": path})
    got = Cache(cache.folder).get(KEY)
    assert got == put
    assert got is not None
    assert got.read("unit.plan") == b"the plan"
    assert got.path("unit.so").read_bytes() == FILES["unit.so"]
    assert got.folder == cache.folder / KEY[:2] / KEY
    assert got.edited_source() is None


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_entry_is_not_there_and_can_be_put_again(cache: Cache, damage: str):
    folder = cache.put(KEY, FILES).folder
    DAMAGES[damage](folder)
    assert Cache(cache.folder).get(KEY) is None
    assert not folder.exists()
    assert cache.put(KEY, FILES).files == FILES
    assert cache.get(KEY) is not None


@pytest.mark.parametrize("damage", DAMAGES)
def test_putting_replaces_a_damaged_entry(cache: Cache, damage: str):
    DAMAGES[damage](cache.put(KEY, FILES).folder)
    assert cache.put(KEY, FILES).path("unit.so").read_bytes() == FILES["unit.so"]


def test_an_entry_moved_under_another_key_is_not_there(cache: Cache):
    other = KEY[:2] + digest_of("another")[2:]
    folder = cache.put(KEY, FILES).folder
    folder.rename(folder.with_name(other))
    assert cache.get(other) is None


def test_the_first_of_two_entries_stays(cache: Cache):
    first = cache.put(KEY, FILES)
    assert cache.put(KEY, {"unit.c": b"other"}).files == first.files


@pytest.mark.parametrize("key", ["", "ab", "../../../etc", "a/b", "a.b"])
def test_keys_are_letters_and_digits(cache: Cache, key: str):
    with pytest.raises(ValueError, match="letters and digits"):
        cache.get(key)


def test_notes(cache: Cache):
    assert cache.recall(KEY) is None
    cache.remember(KEY, "unit\nkey")
    cache.remember(KEY, "unit key")
    assert Cache(cache.folder).recall(KEY) == "unit key"
    (note,) = (cache.folder / "notes").glob("*/*")
    for damage in (b"", b"\xff\xfe", note.read_bytes()[:-1], note.read_bytes() + b"x"):
        note.write_bytes(damage)
        assert cache.recall(KEY) is None


def refuse(monkeypatch: pytest.MonkeyPatch, below: Path, number: int) -> None:
    """Let every write and every new folder below a folder fail with that error number."""
    for name in ("write_bytes", "mkdir"):
        plain = getattr(Path, name)

        def method(self: Path, *args, plain=plain, **kwargs):
            if below in (self, *self.parents):
                raise OSError(number, os.strerror(number), str(self))
            return plain(self, *args, **kwargs)

        monkeypatch.setattr(Path, name, method)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EACCES, errno.EDQUOT])
def test_a_refusing_disk_is_replaced_with_one_warning(
    cache: Cache, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, number: int
):
    cache.put(KEY, FILES)
    refuse(monkeypatch, cache.folder, number)
    again = Cache(cache.folder)
    assert again.get(KEY) is not None, "what is there can still be read"
    other = digest_of("other")
    folder = again.put(other, FILES).folder
    assert cache.folder not in folder.parents
    again.remember(KEY, "note")
    again.put(digest_of("third"), FILES)
    assert again.get(other) is not None
    assert again.recall(KEY) == "note"
    assert not again.writable()
    warnings = [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING]
    assert len(warnings) == 1
    assert str(cache.folder) in warnings[0]
    assert os.strerror(number) in warnings[0]
    assert not list((cache.folder / "temporary").iterdir())


def test_a_full_disk_in_the_midst_of_an_entry(cache: Cache, monkeypatch: pytest.MonkeyPatch):
    plain = Path.write_bytes

    def write_bytes(self: Path, data: bytes) -> int:
        if cache.folder in self.parents and self.name == "unit.so":
            plain(self, data[:100])
            raise OSError(errno.ENOSPC, "No space left on device")
        return plain(self, data)

    monkeypatch.setattr(Path, "write_bytes", write_bytes)
    assert cache.put(KEY, FILES).path("unit.so").read_bytes() == FILES["unit.so"]
    monkeypatch.undo()
    assert Cache(cache.folder).get(KEY) is None
    assert not list((cache.folder / "temporary").iterdir())


@pytest.mark.parametrize("place", ["file", "below a file", "/proc/noeira"])
def test_a_folder_that_cannot_be(place: str, tmp_path: Path):
    (tmp_path / "file").write_text("")
    folder = {"file": tmp_path / "file", "below a file": tmp_path / "file" / "cache"}
    cache = Cache(folder.get(place, place))
    assert cache.get(KEY) is None
    assert cache.recall(KEY) is None
    assert cache.stats().entries == 0
    assert not cache.stats().writable
    cache.put(KEY, FILES)
    assert cache.get(KEY) is not None


def test_nothing_can_be_written(cache: Cache, monkeypatch: pytest.MonkeyPatch):
    refuse(monkeypatch, Path("/"), errno.ENOSPC)
    cache.remember(KEY, "a note is only a help")
    with pytest.raises(NoeiraError, match="NOEIRA_CACHE or TMPDIR"):
        cache.put(KEY, FILES)


def test_the_private_folder_goes_with_its_process(tmp_path: Path):
    script = (
        "import sys; from noeira.runtime.build.cache import Cache; "
        "print(Cache('/proc/noeira').put('abc', {'unit.c': b'x'}).folder)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert "NOEIRA_CACHE names another folder" in done.stderr
    assert done.stderr.count("\n") == 1
    assert not Path(done.stdout.strip()).exists()


def age(folder: Path, seconds: float) -> None:
    then = time.time() - seconds
    os.utime(folder, (then, then))


def test_the_cache_is_bounded(cache: Cache, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("NOEIRA_CACHE_MEGABYTES", "1")
    megabyte = bytes(400_000)
    keys = [digest_of(str(i)) for i in range(5)]
    folders = [cache.put(key, {"unit.so": megabyte}).folder for key in keys[:3]]
    failed = cache.keep_failed(KEY, {"unit.c": megabyte})
    assert all(folder.exists() for folder in folders), "all were used in the last minute"
    for folder, minutes in zip([*folders, failed], (10, 30, 20, 40), strict=True):
        age(folder, 60 * minutes)
    other = Cache(cache.folder)
    other.put(keys[3], {"unit.so": megabyte})
    assert [folder.exists() for folder in [*folders, failed]] == [True, False, False, False]
    cache.put(keys[4], {"unit.so": megabyte})
    assert folders[0].exists(), "entries in use by this process stay"
    assert other.stats().entries == 3


def test_a_use_is_noted_at_most_once_a_minute(cache: Cache):
    folder = cache.put(KEY, FILES).folder
    age(folder, 30)
    before = folder.stat().st_mtime
    cache.get(KEY)
    assert folder.stat().st_mtime == before
    age(folder, 90)
    cache.get(KEY)
    assert folder.stat().st_mtime > time.time() - 10


def test_leftovers_of_killed_processes_go(cache: Cache):
    cache.put(KEY, FILES)
    old, new = cache.folder / "temporary" / "1-a", cache.folder / "temporary" / "2-b"
    for folder in (old, new):
        folder.mkdir()
        (folder / "unit.c").write_text("x")
    age(old, 7200)
    cache.put(digest_of("other"), FILES)
    assert not old.exists()
    assert new.exists()


def made_templates(cache: Cache, count: int) -> list[Path]:
    """So many compiled templates, the oldest first."""
    files = [cache.folder / TEMPLATES / str(number) for number in range(count)]
    for number, file in enumerate(files):
        replace_file(file, b"x")
        age(file, 60 * (count - number))
    return files


def test_compiled_templates_are_bounded(cache: Cache, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(cache_module, "TEMPLATES_KEPT", 2)
    files = made_templates(cache, 4)
    cache.put(KEY, FILES)
    assert [file.exists() for file in files] == [False, False, True, True]


def test_clear_keeps_edits_and_what_is_not_the_caches(cache: Cache):
    entry = cache.put(KEY, FILES)
    entry.path("unit.c").write_text("int mine;\n")
    cache.put(digest_of("other"), FILES)
    cache.remember(KEY, "note")
    (cache.folder / "mnist").mkdir()
    (cache.folder / "mnist" / "images").write_text("data")
    templates = made_templates(cache, 3)
    assert cache.clear() == 2
    assert not any(file.exists() for file in templates)
    assert cache.get(KEY) is None
    assert cache.recall(KEY) is None
    assert (cache.folder / "edited" / KEY / "unit.c.edited").read_text() == "int mine;\n"
    assert (cache.folder / "mnist" / "images").exists()
    stats = cache.stats()
    assert (stats.entries, stats.bytes, stats.notes, stats.edits) == (0, 0, 0, 1)


def test_cache_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    import argparse

    monkeypatch.setenv("NOEIRA_CACHE", str(tmp_path))
    parser = argparse.ArgumentParser()
    cache_command.add_arguments(parser)

    def run(*words: str) -> str:
        assert cache_command.run(parser.parse_args(words)) == 0
        return capsys.readouterr().out

    open_cache().put(KEY, FILES)
    assert f"folder          {tmp_path}\n" in run("show")
    assert "programs        1, 0.0 MB of at most 512 MB\n" in run("show")
    assert json.loads(run("show", "--json"))["entries"] == 1
    assert run("clear") == f"removed 1 program from {tmp_path}\n"
    assert json.loads(run("show", "--json"))["entries"] == 0


BUILDER = """
import sys
from pathlib import Path
from noeira.codegen.language import CUDA, C
from noeira.codegen.source import Source
from noeira.runtime.build.library import build_library, load
from noeira.runtime.c.builder import CBuilder
from noeira.runtime.build.cache import Cache
from noeira.runtime.c.compiler import require_compiler
cache = Cache(sys.argv[1])
compiler = require_compiler(cache)
print("ready", flush=True)
sys.stdin.readline()
for number in range(int(sys.argv[2])):
    text = f"int noeira_answer(void);\\nint noeira_answer(void) {{ return {number}; }}\\n"
    library = build_library(Source(C, "mlp", text, "plan"), CBuilder(compiler), cache)
    assert load(library).noeira_answer() == number
    print("built" if library.built else "found", flush=True)
"""


def start_builders(folder: Path, processes: int, units: int) -> list[subprocess.Popen[str]]:
    command = [sys.executable, "-c", BUILDER, str(folder), str(units)]
    pipe = subprocess.PIPE
    started = [
        subprocess.Popen(command, text=True, stdin=pipe, stdout=pipe, stderr=pipe)
        for _ in range(processes)
    ]
    for process in started:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n", process.communicate()[1]
    return started


def test_sixteen_processes_build_the_same(compiler: Compiler, cache: Cache):
    find_compiler(cache)
    processes = start_builders(cache.folder, 16, 2)
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    said = []
    for process in processes:
        output, errors = process.communicate()
        assert process.returncode == 0, errors
        assert errors == ""
        said += output.split()
    assert len(said) == 32
    assert said.count("built") == 2, "one process builds, the others wait"
    assert cache.stats().entries == 2


def test_killed_processes_leave_a_cache_that_works(compiler: Compiler, cache: Cache):
    find_compiler(cache)
    processes = start_builders(cache.folder, 4, 40)
    for number, process in enumerate(processes):
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
        time.sleep(0.05 + 0.03 * number)
        process.send_signal(signal.SIGKILL)
    for process in processes:
        process.communicate()
    began = time.monotonic()
    for answer in range(3):
        library = build_library(unit(answer), CBuilder(compiler), cache)
        assert load(library).noeira_answer() == answer
    assert time.monotonic() - began < 10, "the locks of the dead are free"
