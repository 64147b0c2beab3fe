"""What a template sees of a kernel: small frozen records of names and numbers, never the IR."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from types import SimpleNamespace
from typing import Any

from noeira.codegen.elements import ELEMENTS, STORAGE_BYTES, form
from noeira.errors import VerifyError
from noeira.ir.broadcasting import Step, walk_of
from noeira.ir.plan import Call

# Names that functions of kernels and loops over rows have for places, threads and what is in
# registers.
TAKEN = re.compile(
    r"(?:[a-z]{1,2}\d+|threads?|workspace|shared|rows?|begin|column|index|element|inside|part|count"
    r"|first|last|from|lane|team|head|edges|access|[ij]|distance)"
)
# Words that C, or CUDA, which is C++, have for themselves.
KEYWORDS = re.compile(
    r"(?:alignas|alignof|and|asm|auto|bool|break|case|catch|char|class|concept|const|constexpr"
    r"|continue|decltype|default|delete|do|double|else|enum|explicit|export|extern|false|float"
    r"|for|friend|goto|if|inline|int|long|mutable|namespace|new|noexcept|not|nullptr|operator"
    r"|or|private|protected|public|register|requires|restrict|return|short|signed|sizeof|static"
    r"|struct|switch|template|this|throw|true|try|typedef|typeid|typename|typeof|union|unsigned"
    r"|using|virtual|void|volatile|wchar_t|while|xor"
    r")"
)
# How an operand is read of which `uniform` makes random numbers.
NUMBER = "number"


@dataclass(frozen=True)
class Operand:
    """A pointer argument, in texts its `id`. That is positional (a0, a1, … inputs; y0, y1, …
    outputs), so equal kernels have equal text.
    """

    id: str
    ctype: str
    dtype: str
    shape: tuple[int, ...]
    size: int

    @property
    def bytes(self) -> int:
        """Bytes of an element."""
        return STORAGE_BYTES[self.dtype]

    @property
    def columns(self) -> int:
        """Elements along the last axis."""
        return self.shape[-1] if self.shape else 1

    @property
    def rows(self) -> int:
        """Rows along that, of all other axes."""
        return math.prod(self.shape[:-1])

    @property
    def sample_size(self) -> int:
        """Elements of each of the first axis."""
        return math.prod(self.shape[1:])

    def widened(self, text: str) -> str:
        """C text for the number of one of its elements, which is C text too."""
        return ELEMENTS[self.dtype].widened(text)

    def rounded(self, text: str) -> str:
        """C text for a number as one of its elements."""
        element = ELEMENTS[self.dtype]
        return element.narrowed(text) if element.rounds else text

    def __str__(self) -> str:
        return self.id


@dataclass(frozen=True)
class ScratchOperand(Operand):
    """An array in the workspace, `offset` bytes into it: what a phase leaves for another, w0, …, or
    a stage for the next of its kernel, by the name that the kernel's description gives it.
    """

    offset: int


@dataclass(frozen=True)
class Load:
    """An element read from `source`. walk: how the elements of the loop go through the operand.

    access: `full`, element by element; `scalar`, one element for all; `row`, in another way; or
    `number`, one that is whole as it is.
    """

    name: str
    source: str
    access: str
    dtype: str
    walk: tuple[Step, ...]

    @property
    def along(self) -> bool:
        """Whether there is an element for each column of a row, or else one for all of them."""
        return self.access == "full" or any(step.inner == 1 for step in self.walk)

    @classmethod
    def of(
        cls, name: str, source: str, dtype: str, shape: tuple[int, ...], loop: tuple[int, ...]
    ) -> Load:
        """How a loop over a shape reads an operand of another, which is repeated to it."""
        size, most = math.prod(shape), math.prod(loop)
        access = "full" if size == most else "scalar" if size == 1 else "row"
        return cls(name, source, access, dtype, walk_of(shape, loop))


@dataclass(frozen=True)
class Store:
    """An element written: `target[index] = name`; dtype: that it is stored as."""

    target: str
    name: str
    dtype: str


@dataclass(frozen=True)
class Constant:
    """A literal, broadcast once before the loop."""

    name: str
    value: str


@dataclass(frozen=True)
class Elementwise:
    """Element-wise code: constants, loads, one statement a scalar op, stores.

    dtype: the one that is computed in; loads and stores may be of others. result: the name of the
    value that the anchor takes from a head. temporaries: how many subexpressions have names.
    random: whether elements have random numbers, which follow from `element`, their number.
    """

    dtype: str
    constants: tuple[Constant, ...] = ()
    loads: tuple[Load, ...] = ()
    lines: tuple[str, ...] = ()
    stores: tuple[Store, ...] = ()
    result: str = ""
    temporaries: int = 0
    random: bool = False

    def without(self, before: Elementwise) -> Elementwise:
        """What is still to do in the same function after `before`: but for its constants, operands
        that are one element for all or for a row, and stores.
        """
        done = {store.target for store in before.stores}
        return replace(
            self,
            constants=tuple(one for one in self.constants if one not in before.constants),
            loads=tuple(load for load in self.loads if load.along or load not in before.loads),
            stores=tuple(store for store in self.stores if store.target not in done),
        )

    def form(self, one: Load | Store) -> str:
        """What the name of a load or store of vectors ends in: `load_bf16`."""
        return form(one.dtype, self.dtype)

    def loaded(self, load: Load, text: str) -> str:
        """C text for the number of one element, which is C text too."""
        return ELEMENTS[load.dtype].widened(text)

    def stored(self, store: Store) -> str:
        """C text for one element as it is written."""
        return (
            ELEMENTS[store.dtype].narrowed(store.name) if store.dtype != self.dtype else store.name
        )


@dataclass(frozen=True)
class Function:
    """One function of a kernel, which runs a stage: its name, and the options of the stage."""

    name: str
    options: dict[str, Any]


class Missing(Enum):
    """What stands for an operand or a result without a pointer; false, and no text."""

    ABSENT = "absent"
    MADE = "made"

    def __bool__(self) -> bool:
        return False

    def __str__(self) -> str:
        return ""


# What is not given, and an operand that the element-wise code before the anchor makes.
ABSENT, MADE = Missing.ABSENT, Missing.MADE


def is_taken(name: str) -> bool:
    """Whether the text of a kernel has a name for something of its own."""
    return any(words.fullmatch(name) for words in (TAKEN, KEYWORDS))


class Operands(SimpleNamespace):
    """The anchor's operands by the op's own names; `ABSENT` where they are not given, `MADE` where
    a head makes them.
    """


class Results(SimpleNamespace):
    """The anchor's results by the op's own names, `ABSENT` where they are not given."""


class Scratch(SimpleNamespace):
    """The arrays that stages share, by the names that the kernel's description gives them."""


def called(arguments: Operands | Results, name: str, what: str) -> Any:
    """The argument of that name. Raises VerifyError that lists those there are."""
    if name not in vars(arguments):
        known = ", ".join(vars(arguments)) or "none"
        raise VerifyError(f"there is no {what} {name}; there are {known}")
    return getattr(arguments, name)


@dataclass(frozen=True)
class Kernel:
    """One phase of a kernel, which most have one of.

    operand, result: the anchor's arguments by the op's own names, `k.operand.x`, `k.result.loss`;
    the first result, if it has no name, is `k.result.y`. inputs, outputs: all arguments in order.
    head, tail: the element-wise code before and after the anchor, which hands its result to the
    tail as `r0`; made: what of the head leads to its result.
    held: the operands whose rows are kept in registers.
    functions: what to write, one a stage; cut: the typed options of the stages; view: what the
    anchor's description shows (see `noeira.codegen.anchor`).
    scratch: the arrays that stages share, `k.scratch.sums`; carried: those that phases share.
    """

    symbol: str
    inputs: tuple[Operand, ...]
    outputs: tuple[Operand, ...]
    attrs: Any
    head: Elementwise
    tail: Elementwise
    functions: tuple[Function, ...]
    cut: Any
    view: Any
    operand: Operands = field(default_factory=Operands)
    result: Results = field(default_factory=Results)
    scratch: Scratch = field(default_factory=Scratch)
    carried: tuple[ScratchOperand, ...] = ()
    made: Elementwise = Elementwise("")
    held: tuple[str, ...] = ()

    @property
    def arguments(self) -> tuple[Operand, ...]:
        """All pointers that functions are given, in order."""
        return self.inputs + self.outputs

    @property
    def operands(self) -> tuple[Operand, ...]:
        """All arguments in order, and what phases share."""
        return self.arguments + self.carried

    @property
    def arrays(self) -> tuple[ScratchOperand, ...]:
        """All that lies in the workspace."""
        return (*self.carried, *vars(self.scratch).values())

    def holding(self, names: Sequence[str]) -> Kernel:
        """The same where the rows of these operands are held. Raises VerifyError if none are."""
        if not names:
            raise VerifyError(
                "rows are looked at twice, as the op says: name the operands in each_row"
            )
        return replace(self, held=tuple(names))

    def fresh(self, names: Sequence[str], reads: Sequence[str] = ()) -> Sequence[str]:
        """Names that the text is to have for elements or numbers, beside those of operands that it
        reads. Raises VerifyError for one that it has for something else.
        """
        for name in names:
            if name in reads or is_taken(name):
                what = "the name of what loops over rows have of their own"
                if name in reads or KEYWORDS.fullmatch(name):
                    what = "the name of the operand" if name in reads else "a word of C"
                raise VerifyError(f"{name} is {what}: take another")
        return names

    def written(self, name: str, size: int) -> Any:
        """The result of that name, `ABSENT` if it is not wanted. Raises VerifyError if it has not
        so many elements: all of the rows, or one for each.
        """
        found, view = called(self.result, name, "result"), self.view
        if isinstance(found, Operand) and found.size != size:
            grid = f"{view.rows} rows of {view.columns}"
            instead = "row_number stores" if size == view.size else "row_results stores"
            other = "a number of each row" if size == view.size else "an element of each"
            raise VerifyError(
                f"{name} has {found.size} elements, not {size} (there are {grid}): "
                f"{instead} {other}"
            )
        return found

    def look(
        self,
        reads: Sequence[str],
        statements: str = "",
        writes: Mapping[str, str] | None = None,
        last: bool = False,
        place: str = "",
    ) -> Elementwise:
        """A look at an element of a row: operands under their own names, statements, results.

        reads: operands of the shape of all rows, or of one; that which a head makes is made here.
        writes: an expression for each result; of the first the tail is made. last: whether this is
        the look that stores what the head gives. place: of the element in the arrays that hold
        operands, `x_held` of x; of those it takes nothing else.
        """
        held = self.held if place else ()
        given = {name: called(self.operand, name, "operand") for name in self.fresh(reads)}
        made_here = last and not any(getattr(self.operand, name) is MADE for name in held)
        head = self.head if made_here else self.made
        parts = [
            self.before(given, head, held),
            self.taken(given, head.result, held, place),
            Elementwise(self.view.dtype, lines=(statements,) if statements.strip() else ()),
            *(self.finished(name, value) for name, value in (writes or {}).items()),
        ]
        return Elementwise(
            self.view.dtype,
            loads=tuple(dict.fromkeys(load for part in parts for load in part.loads)),
            lines=tuple(line for part in parts for line in part.lines),
            stores=tuple(store for part in parts for store in part.stores),
            random=any(part.random for part in parts),
        )

    def before(
        self, given: Mapping[str, Operand | Missing], head: Elementwise, held: Sequence[str]
    ) -> Elementwise:
        """What a look does of a head: all of it if it reads what that makes, or it stores
        something; else nothing.
        """
        if any(operand is MADE and name not in held for name, operand in given.items()):
            return head
        if head.stores:
            return replace(head, lines=(*head.lines, f"(void){head.result};"))
        return Elementwise(head.dtype)

    def taken(
        self, given: Mapping[str, Operand | Missing], result: str, held: Sequence[str], place: str
    ) -> Elementwise:
        """The operands under their own names: from where they are held, from memory, or, of one
        that a head has made, its result.
        """
        dtype, loads, lines = self.view.dtype, list[Load](), list[str]()
        for name, operand in given.items():
            if name in held:
                lines.append(f"const {dtype}v {name} = {name}_held[{place}];")
            elif isinstance(operand, Operand):
                access = "full" if operand.size == self.view.size else "row"
                walk = (Step(operand.size, 1, 1),)
                loads.append(Load(name, operand.id, access, operand.dtype, walk))
            elif operand is MADE:
                lines.append(f"const {dtype}v {name} = {result};")
            else:
                raise VerifyError(f"the operand {name} is not given: ask for it before it is read")
        return Elementwise(dtype, loads=tuple(loads), lines=tuple(lines))

    def finished(self, name: str, value: str) -> Elementwise:
        """What is done with the expression for a result: the tail of the first, or a store."""
        dtype, result = self.view.dtype, self.written(name, self.view.size)
        if self.tail.lines and name == next(iter(vars(self.result))):
            return replace(self.tail, lines=(f"const {dtype}v r0 = {value};", *self.tail.lines))
        stores = (Store(result.id, value, result.dtype),) if result else ()
        return Elementwise(dtype, stores=stores)


def function_names(call: Call, symbol: str) -> tuple[str, ...]:
    """The functions of a call in order: the symbol itself, or one for each of several stages."""
    names = (stage.name.replace(".", "_") for stage in call.choice.stages)
    several = len(call.choice.stages) > 1
    return tuple(f"{symbol}_{name}" for name in names) if several else (symbol,)
