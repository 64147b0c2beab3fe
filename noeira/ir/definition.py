"""What a class of an op must be like: checked as it is defined, before it is ever used."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from noeira.errors import VerifyError
from noeira.ir.kinds import kind_called

if TYPE_CHECKING:
    from noeira.ir.op import Op

# Methods whose first argument is the node's attributes.
TAKE_ATTRS = (
    *("infer", "reference", "vjp", "flops", "storage", "expression", "slope"),
    *("kind_of", "stem", "rows", "cost", "may_overwrite", "index_limits", "result_limits"),
    *("given_operands", "given_results", "moved_together", "product"),
)


def check_given(rule: Op, attrs: Any) -> None:
    """Raises VerifyError if what an op says that there is with these attributes is not of what it
    has.
    """
    for what, every in (("operands", rule.operands), ("results", rule.results)):
        given = getattr(rule, f"given_{what}")(attrs)
        if given != tuple(name for name in every if name in given):
            told, has = (", ".join(n or "''" for n in names) for names in (given, every))
            raise VerifyError(
                f"given_{what} of {rule.name} gives {told}: it must be a tuple of its {what}, "
                f"in their order: {has}"
            )
        if what == "results" and given[:1] != every[:1]:
            raise VerifyError(
                f"given_results of {rule.name} leaves out the first result, which has the name of "
                "the node: it is always given"
            )


def check_declared(cls: type[Op]) -> None:
    """Raises VerifyError for names that are no tuple or set, and for attributes that are not
    frozen.
    """
    for what in ("operands", "results", "saved"):
        given = getattr(cls, what)
        if not isinstance(given, tuple) or not all(isinstance(name, str) for name in given):
            raise VerifyError(
                f"{cls.name}: {what} must be a tuple of names, such as ('x',), not {given!r}"
            )
    if not cls.results:
        raise VerifyError(
            f"{cls.name}: every op has a result: results = ('',) is one with the name of the node"
        )
    if not isinstance(cls.takes, set | frozenset):
        raise VerifyError(
            f"{cls.name}: takes must be a set, such as frozenset({{'head'}}), not {cls.takes!r}"
        )
    check_attrs(cls.name, cls.Attrs)


def check_attrs(name: str, attrs: Any) -> None:
    """Raises VerifyError if a class is no dataclass, its own fields included, or is not frozen."""
    if not isinstance(attrs, type):
        raise VerifyError(f"{name}: Attrs must be a class, not {attrs!r}")
    params = getattr(attrs, "__dataclass_params__", None)
    undecorated = inspect.get_annotations(attrs) and "__dataclass_params__" not in vars(attrs)
    if params is None or undecorated:
        raise VerifyError(
            f"{name}: its Attrs, {attrs.__name__}, must be a dataclass: "
            "write @dataclass(frozen=True) above it"
        )
    if "__slots__" in vars(attrs):
        raise VerifyError(f"{name}: its Attrs, {attrs.__name__}, must have no slots")
    if not params.frozen:
        raise VerifyError(
            f"{name}: its Attrs, {attrs.__name__}, must be frozen: "
            "write @dataclass(frozen=True) above it"
        )


def check_definition(cls: type[Op]) -> None:
    """Raises VerifyError for what is wrong with the class of an op, before it is ever used."""
    name, kind = cls.name, cls.kind
    if not (isinstance(name, str) and name.isascii() and name.isidentifier()):
        raise VerifyError(
            f"{cls.__name__}: the name of an op is a word of letters, digits and _, not {name!r}"
        )
    check_declared(cls)
    element_wise = kind_called(kind, name).element_wise
    if element_wise and not hasattr(cls, "expression"):
        raise VerifyError(f"{name}: an op of kind {kind!r} derives from Elementwise")
    if element_wise and "y" in cls.operands:
        raise VerifyError(
            f"{name}: operand y has the name of the result, which slopes read: give it another"
        )
    if cls.rows_of and cls.rows_of not in cls.operands:
        raise VerifyError(
            f"{name}: there is no operand {cls.rows_of!r} whose rows its kernel takes"
        )
    if unknown := cls.takes - {"head", "tail"}:
        raise VerifyError(f"{name}: a kernel takes a head or a tail, not {', '.join(unknown)}")
    for result in cls.saved:
        if result not in cls.results:
            raise VerifyError(f"{name}: there is no result {result!r} to save")
    for method in TAKE_ATTRS:
        code = getattr(getattr(cls, method, None), "__code__", None)
        if code is not None and "attrs" not in code.co_varnames[1 : code.co_argcount][:1]:
            raise VerifyError(
                f"{method} of {name} must take attrs first: def {method}(self, attrs, ...)"
            )
    taken = list(inspect.signature(cls.infer).parameters.values())[2:]
    # Parents of many ops, such as Elementwise, take `*types` for the operands of each.
    for_many = any(one.kind is one.VAR_POSITIONAL and one.name not in cls.operands for one in taken)
    if not for_many and tuple(one.name for one in taken) != cls.operands:
        listed, told = ", ".join(one.name for one in taken), ", ".join(cls.operands) or "none"
        raise VerifyError(f"{name}: its operands are {told}, but infer takes {listed}")
