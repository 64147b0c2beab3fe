"""The Jinja environment of all templates: undefined names are errors, tags leave no blank lines."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jinja2 import Environment, Template


TEMPLATES = Path(__file__).parent / "templates"


@lru_cache
def environment(folder: Path | None = None) -> Environment:
    """The environment; templates that are not noeira's own are looked for in `folder`."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    return Environment(
        loader=FileSystemLoader([TEMPLATES, *([folder] if folder else [])]),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def template(name: str) -> Template:
    """The template `name`."""
    return environment().get_template(name)
