"""The contract of an operation: one class carries its shape rule, its reference, its gradient and
its cost.
"""

from __future__ import annotations

import difflib
import importlib
import inspect
import sys
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from noeira.errors import ShapeError, VerifyError
from noeira.ir.cost import Cost
from noeira.ir.definition import check_definition, check_given
from noeira.ir.graph import Attrs
from noeira.ir.kinds import KINDS
from noeira.ir.lying import Lying
from noeira.ir.orders import ordered, plain
from noeira.ir.types import TensorType, Types

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np

    from noeira.ir.gradients import Backward, Cotangents
    from noeira.ir.product import Product
    from noeira.ir.samples import BadSample, Sample
    from noeira.ir.storage import Storage


@dataclass(frozen=True)
class IndexLimit:
    """What the elements of an index operand must stay below, and what they number: `10`,
    `"classes"`.
    """

    limit: int
    unit: str


T = TypeVar("T")
# What the elements of values stay below; None where nothing is known.
Limits = tuple[int | None, ...]


class Op(Lying):
    """One operation. Subclasses with a `name` are found by it; there is nothing to register.

    operands, results: their names, of which texts, messages and `vjp` make use. A result called
    `mean` of a node that is called `norm` is `norm.mean`; the first result has the node's name.
    Which of them a node has, `given_operands` and `given_results` say. Whatever has an argument for
    each operand (`infer`, `reference`, `flops`, …) has None for one that is not given; of an op
    whose last argument is `*parts`, called like its last operand, any number are given.
    saved: the results that only the op's own gradient may read.
    kind: what a kernel may join it with, by its name in `noeira.ir.kinds`: `map`, `contraction`,
    `window`, `column`, `row`, `alone`. An op that is of several says which in `kind_of`.
    takes: the element-wise ops that its kernel does too: `head`, those before it, `tail`, after.
    stores_head: whether it can store what others read of a head; else that is a phase before it.
    rows_of: the operand whose rows its kernel runs over; by default the first.
    template: the stem of its kernel's template on every target; by default the op's name. An op
    that has several says which in `stem`.
    totals: whether a result of an op of kind `row` is a number of all rows, such as a loss. Where
    attributes decide that, `has_totals` says it.
    looks_twice: of an op of kind `row`, whether its kernel looks at rows again: those of operands
    that `each_row` names stay in the registers of a GPU.
    streams: of such an op, whether large results may go past the caches: its kernel does not read
    them, and stores them by `row_results`.
    moves: whether its results are elements of its operands as they are, of any dtype (see
    `moved_together`).
    mixes_samples: whether it works along the last axis, as ops of kind `row` do: a batch is a row.
    """

    name: ClassVar[str]
    operands: ClassVar[tuple[str, ...]] = ()
    results: ClassVar[tuple[str, ...]] = ("",)
    saved: ClassVar[tuple[str, ...]] = ()
    kind: ClassVar[str] = "alone"
    takes: ClassVar[frozenset[str]] = frozenset()
    stores_head: ClassVar[bool] = True
    rows_of: ClassVar[str] = ""
    template: ClassVar[str] = ""
    totals: ClassVar[bool] = False
    looks_twice: ClassVar[bool] = False
    streams: ClassVar[bool] = False
    moves: ClassVar[bool] = False
    mixes_samples: ClassVar[bool] = False
    Attrs: ClassVar[type[Attrs]] = Attrs

    def __init_subclass__(cls) -> None:
        if "name" in cls.__dict__:
            check_definition(cls)
            if not cls.template:
                cls.template = cls.name
            cls.mixes_samples = cls.mixes_samples or KINDS[cls.kind].by_rows
            taken = OPS.get(cls.name)
            if taken is not None and place(type(taken)) != place(cls):
                file, name = place(type(taken))
                raise VerifyError(
                    f"there is an op {cls.name!r} already, {name} of {file}: "
                    f"give {cls.__name__} another name"
                )
            OPS[cls.name] = cls()

    @property
    def rows_name(self) -> str:
        """The operand whose rows its kernel runs over."""
        return self.rows_of or self.operands[0]

    @property
    def foreign(self) -> bool:
        """Whether it is defined outside noeira."""
        return not type(self).__module__.startswith("noeira.")

    @cached_property
    def parameters(self) -> dict[str, inspect.Parameter]:
        """What `infer` takes beside the attributes."""
        every = list(inspect.signature(self.infer).parameters.items())
        return dict(every[1:])

    @property
    def variadic(self) -> bool:
        """Whether its last operand stands for any number of them."""
        last = self.parameters.get(self.operands[-1]) if self.operands else None
        return last is not None and last.kind is last.VAR_POSITIONAL

    def operand_names(self, attrs: Any, count: int) -> tuple[str, ...]:
        """What each of so many operands is. Raises ShapeError for another number than there is."""
        given = self.given_operands(attrs)
        names, least = given, len(given)
        if self.variadic:
            least -= 1
            names = (*given[:-1], *(given[-1],) * (count - least))
        while least and self.may_end_before(given[least - 1]):
            least -= 1
        if not least <= count <= len(names):
            listed = ", ".join(given) or "no operands"
            where = " with these attributes" if given != self.operands else ""
            raise ShapeError(f"{self.name} takes {listed}{where}, got {count} operands")
        return names[:count]

    def may_end_before(self, operand: str) -> bool:
        """Whether the operand may be left out where none follows: it has a default in `infer`."""
        parameter = self.parameters.get(operand)
        return parameter is not None and parameter.default is not parameter.empty

    def arguments(self, attrs: Any, given: Sequence[T]) -> tuple[T | None, ...]:
        """What is given, an entry for each operand: None for one that is not."""
        rest = dict[str, list[T]]()
        for name, one in zip(self.operand_names(attrs, len(given)), given, strict=True):
            rest.setdefault(name, []).append(one)
        alone = self.operands[:-1] if self.variadic else self.operands
        several = rest.get(self.operands[-1], []) if self.variadic else []
        return (*(rest[name][0] if name in rest else None for name in alone), *several)

    def named(self, arguments: Sequence[T | None]) -> dict[str, T]:
        """The arguments that are given, by the names of the operands."""
        pairs = zip(self.operands, arguments, strict=True)
        return {name: given for name, given in pairs if given is not None}

    @cached_property
    def known_types(self) -> dict[tuple[Any, Types], Types]:
        """What the shape rule gave, by attributes and operands."""
        return {}

    def types(self, attrs: Any, operands: Sequence[TensorType]) -> Types:
        """`infer`, after a look at which operands and results there are and before one at what it
        gives: no op takes or makes an axis without elements. The same is asked once: networks have
        the same blocks many times, and passes emit them anew.

        Raises ShapeError or DtypeError if the operands do not go together.
        """
        asked = attrs, tuple(operands)
        if asked not in self.known_types:
            self.known_types[asked] = self.found_types(attrs, operands)
        return self.known_types[asked]

    def found_types(self, attrs: Any, operands: Sequence[TensorType]) -> Types:
        """What `types` gives, as the shape rule finds it."""
        check_given(self, attrs)
        arguments = self.arguments(attrs, [plain(type) for type in operands])
        self.check_axes("an operand", operands)
        found = self.infer(attrs, *arguments)
        if not isinstance(found, tuple) or not all(isinstance(t, TensorType) for t in found):
            shown = ", ".join(map(str, found)) if isinstance(found, tuple) else found
            raise VerifyError(f"infer of {self.name} must give a tuple of types, not {shown}")
        results = self.given_results(attrs)
        if len(found) != len(results):
            named = ", ".join(name or "y" for name in results)
            raise VerifyError(
                f"infer of {self.name} gives {len(found)} types for its results, {named}"
            )
        self.check_axes("its result", found)
        orders = self.orders(attrs, tuple(operands), found)
        return tuple(map(ordered, found, orders)) if orders else found

    def check_axes(self, what: str, types: Sequence[TensorType]) -> None:
        """Raises ShapeError for a type with an axis that has no elements."""
        for type in types:
            if fault := type.fault:
                raise ShapeError(f"{self.name}: {what} is {type}, which {fault}")

    def infer(self, attrs: Any, *args: Any, **kwargs: Any) -> Types:
        """The types of the outputs. Raises ShapeError or DtypeError if the operands do not go
        together.
        """
        raise VerifyError(f"{self.name}: no shape rule: define `infer` in {type(self).__name__}")

    def given_operands(self, attrs: Any) -> tuple[str, ...]:
        """The operands that there are with these attributes, in order. Those at the end that have a
        default in `infer` may be left out besides.
        """
        return self.operands

    def given_results(self, attrs: Any) -> tuple[str, ...]:
        """The results that there are with these attributes, in order; the first always is."""
        return self.results

    def reference(self, attrs: Any, *args: Any, **kwargs: Any) -> tuple[np.ndarray, ...]:
        """The outputs in NumPy, in the dtype of the operands."""
        raise VerifyError(f"{self.name}: no reference: define `reference` in {type(self).__name__}")

    def vjp(self, attrs: Any, back: Backward) -> Cotangents:
        """Emit the gradient through `back`: the cotangent of each operand by its name, nothing for
        one that has none; of an op with any number of operands, an entry for each.
        """
        raise VerifyError(
            f"{self.name} has no gradient: define `vjp` in {type(self).__name__}, "
            "or keep it off the path to the loss"
        )

    @cached_property
    def slopes(self) -> dict[int, Op]:
        """Those of its slopes that were asked for, by operand: a definition that is run again
        has its own.
        """
        return {}

    def slope_op(self, index: int) -> Op | None:
        """The op `name.dI`, the slope in operand I; None for what is not element-wise."""
        return None

    def index_limits(self, attrs: Any, operands: Any) -> dict[str, IndexLimit]:
        """The operands whose elements number rows or classes to read, by name, with what they must
        stay below. `verify` refuses a graph that does not promise it.
        """
        return {}

    def result_limits(self, attrs: Any, operands: Any, limits: Limits) -> Limits:
        """What the elements of each given result stay below, given the same of each operand; None
        where nothing is known, and for what is no whole number.
        """
        return (None,) * len(self.given_results(attrs))

    def storage(self, attrs: Any, operands: Types) -> Storage | None:
        """Where the result lies, of a view, which launches nothing; None for what a kernel makes.

        A view has one result.
        """
        return None

    @property
    def launches(self) -> bool:
        """Whether its nodes are calls of kernels: all but views say nothing of storage."""
        return type(self).storage is Op.storage

    def kind_of(self, attrs: Any, *args: Any, **kwargs: Any) -> str:
        """The kind of a node, by its name, given the types of its operands."""
        return self.kind

    def has_totals(self, attrs: Any) -> bool:
        """Whether a result of a node with these attributes is a number of all rows."""
        return self.totals

    def stem(self, attrs: Any, *args: Any, **kwargs: Any) -> str:
        """The stem of its kernel's template, given the types of its operands."""
        return self.template

    def rows(self, attrs: Any, *args: Any, **kwargs: Any) -> TensorType:
        """What its kernel takes row by row, given the types of its operands: the last axis is a
        row, all others number them. By default the operand `rows_of`.
        """
        return args[self.operands.index(self.rows_name)]

    def product(self, attrs: Any, *args: Any, **kwargs: Any) -> Product:
        """The product of matrices that it is, of operands of these types: all that kernels of
        products know of it.
        """
        raise VerifyError(
            f"{self.name}: no product of matrices: define `product` in {type(self).__name__}"
        )

    def moved_together(self, attrs: Any, *args: Any, **kwargs: Any) -> int:
        """Of an op that moves elements: how many stay neighbours. Results consist of pieces of so
        many that begin at multiples of it, in operands as in the result.
        """
        return 1

    def may_overwrite(self, attrs: Any, *args: Any, **kwargs: Any) -> dict[str, tuple[str, ...]]:
        """For a result, the operands whose memory it may be written to, all by name: the kernel
        reads each of their elements before it writes the same element of the result.
        """
        return {}

    def cost(self, attrs: Any, *args: Any, **kwargs: Any) -> Cost:
        """Arithmetic and memory traffic of one launch; by default every operand once."""
        operands = [type for type in args if type is not None]
        results = self.types(attrs, operands)
        read, written = (sum(type.nbytes for type in side) for side in (operands, results))
        return Cost(self.flops(attrs, *args), read, written)

    def flops(self, attrs: Any, *args: Any, **kwargs: Any) -> int:
        """Floating-point operations of one launch on operands of these types, a multiply-add
        counting as two.
        """
        return 0

    def samples(self) -> tuple[Sample, ...]:
        """Operands on which the sweeps try the op."""
        return ()

    def bad_samples(self) -> tuple[BadSample, ...]:
        """Operands that the shape rule refuses."""
        return ()

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[Callable[[str], Op], tuple[str]]:
        return op, (self.name,)


# By name, without slopes, which are made on demand and kept by what they are slopes of.
OPS: dict[str, Op] = {}


def place(cls: type) -> tuple[str, str]:
    """Where a class is defined: a class statement that is run again is the same place."""
    module = sys.modules.get(cls.__module__)
    return getattr(module, "__file__", None) or cls.__module__, cls.__qualname__


def op(name: str) -> Op:
    """The op called `name`; slopes of element-wise ops (`gelu.d0`, `gelu.d0.d1`) are made on
    demand.

    Raises VerifyError with the nearest known name if there is no such op.
    """
    found = OPS.get(name)
    if found is None:
        importlib.import_module("noeira.ir.ops")
        found = OPS.get(name) or derived(name)
    return found


def names_foreign(text: str) -> bool:
    """Whether a text, of a graph or a plan, may name ops that are defined outside noeira: it does
    not say what they do.
    """
    return any(name in text for name, known in OPS.items() if known.foreign)


def derived(name: str) -> Op:
    """The op whose name ends in `.dI`: the slope of its base in operand I."""
    base, dot, index = name.rpartition(".d")
    if dot and index.isdecimal() and index == str(int(index)):
        rule, operand = op(base), int(index)
        made = rule.slopes.get(operand) or rule.slope_op(operand)
        if made is not None:
            return rule.slopes.setdefault(operand, made)
    near = difflib.get_close_matches(name, OPS, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise VerifyError(f"there is no op called {name!r}{hint} (one of your own: import its file)")
