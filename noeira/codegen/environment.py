"""The Jinja environments of all templates: undefined names are errors, tags leave no blank lines.

A template is named by its path, from `noeira/codegen` on if it is noeira's own. What it imports is
looked for in its own folder, then in the library of its language, `c/lib` or `cuda/lib`, then among
what all languages share, `lib`; `x.j2` stands for `x.c.j2` or `x.cu.j2` where there is one. So a
kernel's folder may name its files as it likes, and no library finds anything in it.
"""

from __future__ import annotations

import os
import re
import traceback
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from noeira.codegen.language import LANGUAGES
from noeira.errors import VerifyError

if TYPE_CHECKING:
    from jinja2 import Environment, Template

CODEGEN = Path(__file__).parent
KERNELS = CODEGEN / "kernels"
# What the names of the templates of a language end in.
ENDINGS = {name: f"{language.ending}.j2" for name, language in LANGUAGES.items()}


@lru_cache
def environment(language: str) -> Environment:
    """The environment of a language, `c` or `cuda`.

    Its filters beside Jinja's own: `identifiers`, `literal`, `index_type`, `times` and `added`.
    """
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    from noeira.codegen.compiled_templates import CompiledTemplates
    from noeira.codegen.ctext import added, index_type, times
    from noeira.codegen.definitions import identifiers
    from noeira.codegen.elements import literal

    class Missing(StrictUndefined):
        """A name that is not there; its error lists those that are."""

        @property
        def _undefined_message(self) -> str:
            if self._undefined_hint:
                return self._undefined_hint
            owner, listed = self._undefined_obj, ""
            if isinstance(owner, dict):
                listed = ", ".join(map(str, owner))
            elif type(owner).__module__.split(".")[0] not in ("builtins", "jinja2"):
                names = [name for name in dir(owner) if not name.startswith("_")]
                listed = ", ".join(names) or "no names"
            has = f"; {type(owner).__name__} has {listed}" if listed else ""
            return f"{self._undefined_name!r} is not there{has}"

    libraries = (CODEGEN / language / "lib", CODEGEN / "lib")

    class Templates(Environment):
        """Finds what a template imports."""

        def join_path(self, template: str, parent: str) -> str:
            folders = ((CODEGEN / parent).parent, *libraries)
            found = (find_template(folder, template, language) for folder in folders)
            return next(filter(None, found), template)

    made = Templates(
        loader=FunctionLoader(load_template),
        undefined=Missing,
        bytecode_cache=CompiledTemplates(),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    filters = (identifiers, literal, index_type, times, added)
    made.filters |= {filter.__name__: filter for filter in filters}
    return made


def find_template(folder: Path, name: str, language: str) -> str | None:
    """The name of a template in a folder, of its language if there is one, or None."""
    for file in (name.removesuffix("j2") + ENDINGS[language], name):
        # Asked for each import of each kernel: text is faster than a Path.
        path = f"{folder}{os.sep}{file}"
        if os.path.isfile(path):
            return path.removeprefix(f"{CODEGEN}{os.sep}")
    return None


def load_template(name: str) -> tuple[str, str, Callable[[], bool]] | None:
    """The text of a template, its file, and what says whether that is as it was."""
    path = CODEGEN / name
    try:
        text, changed = path.read_text(encoding="utf-8"), path.stat().st_mtime_ns
    except OSError:
        return None
    file = str(path)
    return text, file, lambda: os.path.isfile(file) and os.stat(file).st_mtime_ns == changed


def template(name: str) -> Template:
    """One of noeira's own templates, by its path: `c/unit/unit.c.j2`."""
    return environment(language_of(name)).get_template(name)


def language_of(name: str) -> str:
    """The language that a template is written in, by its ending."""
    return next(language for language, ending in ENDINGS.items() if name.endswith(f".{ending}"))


def rendered(language: str, name: str, **given: Any) -> str:
    """The text of a template. Raises VerifyError with the template's line if it is wrong."""
    from jinja2 import TemplateError

    found = environment(language)
    try:
        return found.get_template(name).render(**given)
    except (TemplateError, VerifyError, TypeError, ValueError, ArithmeticError) as error:
        raise VerifyError(template_fault(found, name, error)) from error


def template_fault(environment: Environment, name: str, error: Exception) -> str:
    """What is wrong with a template: its own line as far as one is known, and not that of a macro
    that it calls.
    """
    from jinja2 import TemplateNotFound, TemplateSyntaxError

    assert environment.loader is not None
    source, file, _ = environment.loader.get_source(environment, name)
    if isinstance(error, TemplateSyntaxError) and error.name and error.name != name:
        return f"the template {Path(error.name).name}, line {error.lineno}: {error.message}"
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
    return f"the template {Path(name).name}{place}: {what}"
