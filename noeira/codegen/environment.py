"""The Jinja environment of all templates: undefined names are errors, tags leave no blank lines."""

from __future__ import annotations

import re
import traceback
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from noeira.errors import VerifyError

if TYPE_CHECKING:
    from jinja2 import Environment, Template


TEMPLATES = Path(__file__).parent / "templates"


@lru_cache
def environment(folder: Path | None = None) -> Environment:
    """The environment; templates that are not noeira's own are looked for in `folder`.

    Its filters beside Jinja's own: `identifiers` and `literal`.
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    from noeira.codegen.expressions import c_literal
    from noeira.codegen.prelude import identifiers

    class Missing(StrictUndefined):
        """A name that is not there; its error lists those that are."""

        @property
        def _undefined_message(self) -> str:
            if self._undefined_hint:
                return self._undefined_hint
            owner, names = self._undefined_obj, list[str]()
            if isinstance(owner, dict):
                names = [*map(str, owner)]
            elif type(owner).__module__.split(".")[0] not in ("builtins", "jinja2"):
                names = [name for name in dir(owner) if not name.startswith("_")]
            listed = f"; {type(owner).__name__} has {', '.join(names)}" if names else ""
            return f"{self._undefined_name!r} is not there{listed}"

    made = Environment(
        loader=FileSystemLoader([TEMPLATES, *([folder] if folder else [])]),
        undefined=Missing,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    made.filters |= {"identifiers": identifiers, "literal": c_literal}
    return made


def template(name: str) -> Template:
    """The template `name`."""
    return environment().get_template(name)


def rendered(folder: Path | None, name: str, **given: Any) -> str:
    """The text of a template, which is looked for in `folder` too.

    Raises VerifyError with the template's line if it is wrong, jinja2.TemplateNotFound if it is not
    there.
    """
    from jinja2 import TemplateError, TemplateNotFound

    found = environment(folder)
    try:
        return found.get_template(name).render(**given)
    except (TemplateError, TypeError, ValueError, ArithmeticError) as error:
        if isinstance(error, TemplateNotFound) and error.name == name:
            raise
        raise VerifyError(template_fault(found, name, error)) from error


def template_fault(environment: Environment, name: str, error: Exception) -> str:
    """What is wrong with a template: its own line as far as one is known, and not that of a macro
    that it calls.
    """
    from jinja2 import TemplateNotFound, TemplateSyntaxError

    assert environment.loader is not None
    source, file, _ = environment.loader.get_source(environment, name)
    if isinstance(error, TemplateSyntaxError) and error.name and error.name != name:
        return f"the template {error.name}, line {error.lineno}: {error.message}"
    if isinstance(error, TemplateSyntaxError):
        number = error.lineno
    else:
        frames = traceback.extract_tb(error.__traceback__)
        number = next((f.lineno for f in reversed(frames) if f.filename == file), None)
    what = str(error.message if isinstance(error, TemplateSyntaxError) else error)
    if isinstance(error, TemplateNotFound):
        what = f"there is no template {error.name}"
    place = f", line {number}" if number else ""
    line = source.splitlines()[number - 1] if number else ""
    missing = re.match(r"'(\w+)' is not there; (\w+) has", what)
    if missing and (owner := re.search(rf"([\w.]+)\.{missing[1]}\b", line)):
        what = what.replace(f"; {missing[2]} has", f"; {owner[1]} has", 1)
    return f"the template {name}{place}: {what}"
