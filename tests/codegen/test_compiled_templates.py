"""Compiled templates on disk: used again, never if they are of something else, never in the way."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import jinja2
import pytest

from noeira import config
from noeira.codegen import compiled_templates
from noeira.codegen.environment import environment

NAME = "c/prelude/vector_head.c.j2"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where compiled templates lie in this test."""
    monkeypatch.setenv("NOEIRA_CACHE", str(tmp_path / "cache"))
    return config.cache_folder() / config.TEMPLATES


class Compiled(Exception):
    """Jinja was asked to compile."""


def text_of(path: Path | str) -> str:
    """What a template with no names in it gives in a new environment, as in another process."""
    return environment.__wrapped__("c").get_template(str(path)).render()


def kept_text(path: Path | str) -> str:
    """The same, but what is not on disk raises Compiled."""

    def refuse(*given: object) -> None:
        raise Compiled

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jinja2.Environment, "_parse", refuse)
        return text_of(path)


@pytest.fixture
def template(tmp_path: Path, folder: Path) -> Path:
    """A template that was compiled."""
    path = tmp_path / "mine.c.j2"
    path.write_text("{{ 6 * 7 }}\n")
    assert text_of(path) == "42\n"
    return path


def test_a_template_is_compiled_once(template: Path, folder: Path) -> None:
    assert len(list(folder.iterdir())) == 1
    assert kept_text(template) == "42\n"


def test_noeiras_own_are_kept_too(folder: Path) -> None:
    environment.__wrapped__("c").get_template(NAME)
    assert len(list(folder.iterdir())) == 1


def test_an_edited_template_is_compiled_again(template: Path, folder: Path) -> None:
    template.write_text("{{ 6 * 8 }}\n")
    with pytest.raises(Compiled):
        kept_text(template)
    assert text_of(template) == kept_text(template) == "48\n"
    assert len(list(folder.iterdir())) == 1


@pytest.mark.parametrize(
    ("owner", "name", "value"),
    [
        (compiled_templates, "__version__", "0.0.0"),
        (jinja2, "__version__", "0.0.0"),
        (compiled_templates, "MAGIC_NUMBER", b"none"),
    ],
)
def test_what_another_version_compiled_is_not_used(
    template: Path, monkeypatch: pytest.MonkeyPatch, owner: object, name: str, value: object
) -> None:
    monkeypatch.setattr(owner, name, value)
    with pytest.raises(Compiled):
        kept_text(template)
    assert text_of(template) == kept_text(template) == "42\n"


def flipped(data: bytes, at: int) -> bytes:
    """Data with one bit changed."""
    return data[:at] + bytes([data[at] ^ 4]) + data[at + 1 :]


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda data: b"",
    "no line": lambda data: bytes(7),
    "a part": lambda data: data[: len(data) // 2],
    "more": lambda data: data + b"\0",
    "a bit of the digest": lambda data: flipped(data, 5),
    "a bit of the code": lambda data: flipped(data, len(data) - 40),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_what_is_damaged_is_compiled_again(template: Path, folder: Path, damage: str) -> None:
    (file,) = folder.iterdir()
    file.write_bytes(DAMAGES[damage](file.read_bytes()))
    with pytest.raises(Compiled):
        kept_text(template)
    assert text_of(template) == kept_text(template) == "42\n"


def test_a_folder_that_cannot_be_written_is_no_error(
    template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("NOEIRA_CACHE", str(tmp_path / "file"))
    assert text_of(template) == "42\n"


def test_a_file_that_cannot_be_read_is_no_error(template: Path, folder: Path) -> None:
    (file,) = folder.iterdir()
    file.unlink()
    file.mkdir()
    assert text_of(template) == "42\n"
