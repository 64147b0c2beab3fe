"""How a language runs a kernel: one class for the stem of its template, found by that.

A kernel is described in `noeira/codegen/kernels/STEM/LANGUAGE.py`, or, for an op in a user's own
file, beside the op; what is not described is cut by what its op is (`defaults.py`). Plans hold
stages with options, in which a person may edit numbers; the class turns shapes and a machine into a
`Cut`, the typed form of these options, a cut into stages and a workspace, and stages back into a
cut.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, ClassVar

from noeira.codegen.cut import check_stages, read_cut
from noeira.codegen.environment import KERNELS
from noeira.codegen.language import LANGUAGES
from noeira.codegen.lower import head_code, tail_code
from noeira.codegen.scratch import Room, bytes_of
from noeira.codegen.stored import is_raw
from noeira.codegen.view import Elementwise, Function
from noeira.errors import DtypeError, VerifyError
from noeira.ir.body import Body
from noeira.ir.choices import Problem
from noeira.ir.graph import Node, Value
from noeira.ir.op import place
from noeira.ir.plan import Choice, Stage
from noeira.ir.types import COMPUTED, ROUNDED, computed


class Anchor:
    """How kernels of a stem are cut in a language; it has no state.

    stem: of the template; language: `c` or `cuda`; Cut: a frozen dataclass of `option` fields;
    dtypes: of the floats that its template is written for, None if its text is to show whether it
    takes those of 16 bits for what they are (see `stored`); apart: whether a head and a tail stand
    in functions of their own, as where one stage makes all that the next reads. Classes for both
    languages derive from `CAnchor` and `CudaAnchor`, and say what is not as there.

    In all methods `machine` is what code is written for, an `ISA` or an `Arch`.
    """

    stem: ClassVar[str]
    language: ClassVar[str]
    Cut: ClassVar[type]
    dtypes: ClassVar[frozenset[str] | None] = None
    apart: ClassVar[bool] = False

    def __init_subclass__(cls) -> None:
        if "stem" in cls.__dict__:
            key = cls.stem, cls.language
            own = cls.__module__.startswith(f"{KERNELS_PACKAGE}.")
            known = ANCHORS.get(key) if own else described(*key)
            if known is not None and place(type(known)) != place(cls):
                file, name = place(type(known))
                raise VerifyError(
                    f"the kernel {cls.stem} is described in {cls.language} already, by {name} of "
                    f"{file}: give the op of {cls.__name__} another name or template"
                )
            ANCHORS[key] = cls()

    def rule(self, body: Body, machine: Any) -> Any:
        """The cut by shape alone, never timed."""
        raise NotImplementedError

    def stages(self, body: Body, cut: Any, machine: Any) -> tuple[Stage, ...]:
        """The stages of a cut."""
        raise NotImplementedError

    def scratch(self, body: Body, cut: Any) -> tuple[Room, ...]:
        """The arrays that the stages of a cut share, `k.scratch.NAME` in the template. They depend
        on nothing but the cut, so that the workspace of an edited plan can be checked.
        """
        return ()

    def algorithm(self, body: Body, cut: Any) -> str:
        """By which of several algorithms a cut does it, in words; "" where there is one alone."""
        return ""

    def workspace(self, body: Body, cut: Any) -> int:
        """Bytes of these arrays."""
        return bytes_of(self.scratch(body, cut))

    def check(self, body: Body, cut: Any, machine: Any) -> None:
        """Raises VerifyError if a cut, perhaps of an edited plan, does not fit the shapes."""

    def check_dtypes(self, body: Body) -> None:
        """Raises DtypeError for a float that the class says the template is not written for:
        element-wise code before and after an anchor has those of all dtypes.
        """
        if self.dtypes is None:
            return
        anchor = body.anchor
        own = (*anchor.inputs, *anchor.outputs) if anchor else body.inputs + body.outputs
        for value in own:
            if value.type.is_float and value.type.dtype not in self.dtypes:
                raise DtypeError(self.without(body, value, self.dtypes))

    def check_text(self, body: Body, text: str) -> None:
        """Raises DtypeError where the text of a kernel takes the bits of 16-bit floats for numbers,
        unless the class says that it is written for them.
        """
        if self.dtypes is not None:
            return
        names = (*body.sources, *body.targets)
        for name, value in zip(names, (*body.inputs, *body.outputs), strict=True):
            dtype = value.type.dtype
            if dtype in ROUNDED and is_raw(text, name, dtype):
                raise DtypeError(
                    f"{self.without(body, value, COMPUTED)}; its template is to read {dtype} by "
                    f"load_{dtype} or widen_{dtype}, and to write it by store_{dtype} or "
                    f"narrow_{dtype}, as all macros for rows do"
                )

    def without(self, body: Body, value: Value, dtypes: Iterable[str]) -> str:
        """What is said of a value of a dtype that there is no kernel for."""
        names = " and ".join(dict.fromkeys(part.op.name for part in body.parts))
        return (
            f"{value}: {names} has no kernel for {value.type.dtype} in "
            f"{LANGUAGES[self.language].title}: it has {', '.join(sorted(dtypes))}"
        )

    def view(self, body: Body, machine: Any) -> Any:
        """What the template sees as `k.view`."""
        raise NotImplementedError

    def template(self, body: Body, cut: Any) -> str:
        """The stem of the template that writes a cut, which may be another algorithm's."""
        return body.stem

    def function(self, name: str, stage: Stage) -> Function:
        """What the template sees of a stage."""
        return Function(name, dict(stage.options))

    def head(self, body: Body) -> Elementwise:
        """The element-wise code before the anchor."""
        return head_code(body)

    def tail(self, body: Body) -> Elementwise:
        """The element-wise code after it, which has its result as `r0`."""
        return tail_code(body, apart=self.apart)

    def read(self, body: Body, stages: tuple[Stage, ...], machine: Any) -> Any:
        """The cut that stages describe. Raises VerifyError if they are no stages of this kernel."""
        cut = read_cut(self.Cut, stages)
        self.check(body, cut, machine)
        check_stages(self.Cut, stages, self.stages(body, cut, machine))
        return cut

    def choice(self, body: Body, cut: Any, machine: Any) -> Choice:
        """What stands in a plan for a cut."""
        return Choice(self.stages(body, cut, machine), self.workspace(body, cut))

    def problem(self, body: Body, target: str) -> Problem | None:
        """What a body is in a table of choices; None if there is nothing to choose."""
        return None

    def body(self, problem: Problem) -> Body:
        """A body that is a problem. Raises VerifyError if there is none."""
        raise VerifyError(f"{problem}: there are no choices for {problem.kind}")

    def candidates(self, body: Body, machine: Any) -> Iterable[Any]:
        """Cuts that a search may try, likely ones first."""
        return ()


KERNELS_PACKAGE = "noeira.codegen.kernels"
# By stem and language.
ANCHORS: dict[tuple[str, str], Anchor] = {}


def described(stem: str, language: str) -> Anchor | None:
    """The description of a kernel, if it has one."""
    found = ANCHORS.get((stem, language))
    if found is None and (KERNELS / stem / f"{language}.py").is_file():
        importlib.import_module(f"{KERNELS_PACKAGE}.{stem}.{language}")
        found = ANCHORS[stem, language]
    return found


def anchor_of(body: Body) -> Node:
    """The node that has the kernel, of a body that is not element-wise alone."""
    assert body.anchor is not None
    return body.anchor


def rows_operand(body: Body) -> Value:
    """The operand whose rows the anchor's kernel runs over, of the shape that it takes it in."""
    anchor = anchor_of(body)
    return replace(anchor.inputs[anchor.rows_at], type=anchor.rows)


def has_totals(body: Body) -> bool:
    """Whether the anchor, an op over rows, has a result that is a number of all rows."""
    anchor = anchor_of(body)
    return anchor.op.has_totals(anchor.attrs)


def rows_dtype(body: Body) -> str:
    """The dtype that these rows are computed in; of whole numbers their own."""
    dtype = rows_operand(body).type.dtype
    return computed(dtype) or dtype


def work_of(body: Body) -> int:
    """Elements of the largest operand or result: the work where no rule says more."""
    return max(v.type.size for v in (*body.inputs, *body.outputs))
