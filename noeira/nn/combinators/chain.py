"""Modules one after the other: the signature of a chain, and the message for two neighbours that do
not fit; `Chain` and `Loop` are the combinators that are made so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Literal

from noeira.errors import CompositionError
from noeira.nn.combinators.container import Container, Wrapper, unary
from noeira.nn.core.expression import subtract
from noeira.nn.core.image_axes import CHANGING, image_axes, reordered
from noeira.nn.core.messages import change, sentence, underlined
from noeira.nn.core.module import Module
from noeira.nn.core.signature import Pattern, Signature
from noeira.nn.core.slots import modules
from noeira.nn.core.unify import Misfit, Solver, elements, solve

# A type whose text is longer is not written out twice to say what to change in it.
LONG = 40


class Break(Exception):
    """Layer `index` does not take what the one before gives, by `misfit`; `axis` differs, if it is
    one. because: what the layer says of it.
    """

    def __init__(
        self, index: int, gives: Pattern, takes: Pattern, layer: type[Module], misfit: Misfit
    ) -> None:
        super().__init__(f"layer {index}")
        self.index, self.gives, self.takes, self.misfit = index, gives, takes, misfit
        self.axis, self.because = misfit.axis, layer.because(misfit)


def chained(owner: str, layers: Sequence[type[Module]]) -> Signature:
    """The signature of a chain. Raises Break at the first pair that does not fit."""
    signatures = [unary(owner, layer, i).apart(i) for i, layer in enumerate(layers)]
    solver = Solver.of(*signatures)
    current = signatures[0].outputs[0]
    for index, signature in enumerate(signatures[1:], start=1):
        gives, takes = solver.applied(current), solver.applied(signature.inputs[0])
        try:
            solver.equal(gives, takes)
        except Misfit as misfit:
            raise Break(index, tidy(gives), tidy(takes), layers[index], misfit) from None
        current = signature.outputs[0]
    return solver.result(signatures[0].inputs, [current]).tidy()


def composed(cls: Any, layers: Sequence[type[Module]]) -> Signature:
    """The signature of a chain.

    Raises CompositionError that shows the first pair that does not fit.
    """
    owner = cls.family
    try:
        return chained(owner.__name__, layers)
    except Break as found:
        raise broken(owner.__name__, layers, found) from None


def broken(
    owner: str, layers: Sequence[type[Module]], found: Break, title: str = ""
) -> CompositionError:
    """The error for a pair: both underlined in the user's own notation, and what to change."""
    left, right = found.index - 1, found.index
    notes = {left: f"gives {found.gives}", right: f"takes {found.takes}{found.misfit.why}"}
    picture = underlined(owner, [repr(layer) for layer in layers], notes)
    return CompositionError(
        f"layers {left} and {right} of {title or owner} do not fit"
        f"\n\n{picture}{advice(owner, layers, found)}"
    )


def advice(owner: str, layers: Sequence[type[Module]], found: Break) -> str:
    """What to change: sizes of either layer, as far as the chain up to here then fits."""
    left, right = layers[found.index - 1], layers[found.index]
    if found.misfit.orders:
        return one_order(owner, layers, found)
    if found.because or found.misfit.why:
        return sentence(found.because)
    if found.gives.dtype != found.takes.dtype:
        first = fits(owner, [right, *layers[: found.index]])
        moved = f" Put {right!r} in front of {layers[0]!r}." if first else ""
        return f"\n\n  They differ in what their elements are.{moved}"
    if found.axis is None and (said := other_axes(owner, layers[: found.index], right)):
        return said
    if said := flattened(owner, layers, found):
        return said
    if found.axis is None:
        return "\n\n  They differ in the number of axes."
    has, wants = found.gives.axes[found.axis], found.takes.axes[found.axis]
    if not isinstance(has, int) or not isinstance(wants, int):
        return ""
    before = list(layers[: found.index - 1])
    alternatives = (
        (right, right.adjusted("takes", found.axis, has), lambda new: [*before, left, new]),
        (left, left.adjusted("gives", found.axis, wants), lambda new: [*before, new, right]),
    )
    good = [
        smallest_change(old, new)
        for old, new, chain in alternatives
        if new and fits(owner, chain(new))
    ]
    if good:
        return change(*good)
    between = (
        f"Put Linear[{has}, {wants}] between them, or change" if found.axis == -1 else "Change"
    )
    return f"\n\n  {between} one of them."


def one_order(owner: str, layers: Sequence[type[Module]], found: Break) -> str:
    """What to change where one layer has the channels of images first and the next one last."""
    *before, left, right = layers[: found.index + 1]
    given, taken = found.misfit.orders or ("", "")
    if len(given) != len(taken) and (said := other_axes(owner, [*before, left], right)):
        return said
    alternatives = (
        (right, right.varied("AXES", given), lambda new: [*before, left, new]),
        (left, left.varied("AXES", taken), lambda new: [*before, new, right]),
    )
    good = [(repr(a), repr(b)) for a, b, chain in alternatives if b and fits(owner, chain(b))]
    turned = taken in CHANGING and given in CHANGING
    between = f"ut {CHANGING[taken]} between them." if turned else ""
    advice = change(*good)
    if not advice or not between:
        return advice or (between and f"\n\n  P{between}")
    return f"{advice[:-1]}, or p{between}"


def other_axes(owner: str, before: Sequence[type[Module]], right: type[Module]) -> str:
    """What to write in place of a layer that is of another number of axes."""
    good = [other for other in reordered(right) if fits(owner, [*before, other])]
    return change((repr(right), repr(good[0]))) if good else ""


def flattened(owner: str, layers: Sequence[type[Module]], found: Break) -> str:
    """What to put between layers of images and one of rows; empty if these are none."""
    *before, right = layers[: found.index + 1]
    orders = [axes for one in before for p in one.shapes().patterns if (axes := image_axes(p))]
    count = len(found.gives.axes)
    if not orders or len(orders[-1]) != count + 1 or found.gives.rest or len(found.takes.axes) > 1:
        return ""
    last = orders[-1].endswith("c")
    pools = {"nchw": "GlobalAvgPool2D", "nhwc": "GlobalAvgPool2D.of(axes='nhwc')"}
    ways = [("Flatten", elements(found.gives)), (pools.get(orders[-1]), found.gives.axes[-last])]
    good = list[str]()
    for name, length in ways:
        new = right.adjusted("takes", -1, length) if isinstance(length, int) else None
        good += (
            [f"{name}, {new or right!r}"] if name and (new or not isinstance(length, int)) else []
        )
    if not good:
        return ""
    return f"\n\n  {right!r} takes rows, not images. Write {' or '.join(good)}."


def smallest_change(old: type[Module], new: type[Module]) -> tuple[str, str]:
    """The texts of two types or, if they are long and differ in one part, of that part."""
    while len(repr(old)) > LONG and len(old.inside) == len(new.inside):
        pairs = zip(old.inside, new.inside, strict=True)
        different = {(a, b) for (_, a), (_, b) in pairs if a is not b}
        if len(different) != 1:
            break
        ((old, new),) = different
    return repr(old), repr(new)


def fits(owner: str, layers: Sequence[type[Module]]) -> bool:
    """Whether every pair fits."""
    try:
        chained(owner, layers)
    except Break:
        return False
    return True


def first_break(layers: Sequence[type[Module]], given: Pattern) -> Break | None:
    """Where a chain that fits by its types breaks for a shape; None if it does not."""
    current = given
    for index, layer in enumerate(layers):
        try:
            current = solve(layer.shapes(), [current]).outputs[0]
        except Misfit as misfit:
            takes = layer.shapes().inputs[0]
            return Break(index, current, takes, layer, misfit)
    return None


def replaced(
    layers: Sequence[type[Module]], end: Literal["takes", "gives"], axis: int, length: int
) -> list[type[Module]] | None:
    """The chain with an axis of its first or last layer changed; None if it then breaks."""
    changed = list(layers)
    position = 0 if end == "takes" else -1
    new = changed[position].adjusted(end, axis, length)
    if new is None:
        return None
    changed[position] = new
    return changed if fits("", changed) else None


def padding(module: type[Module]) -> str:
    """What to write where images come out smaller than they go in by some pixels at their edges."""
    takes, gives = module.shapes().inputs[0], module.shapes().outputs[0]
    order = image_axes(takes)
    if not order or image_axes(gives) != order:
        return ""
    every = zip(order[1:], takes.axes, gives.axes, strict=True)
    lost = [subtract(taken, given) for axis, taken, given in every if axis != "c"]
    if not any(lost) or not all(isinstance(pixels, int) and pixels >= 0 for pixels in lost):
        return ""
    return sentence("images keep their size where stride is 1 and padding=K//2, K being odd")


def looped(
    cls: Any,
    inner: type[Module],
    parts: Sequence[str],
    reason: str,
    further: bool = False,
    instead: Callable[[type[Module]], str] = lambda inner: "",
) -> Signature:
    """The signature of a module that must give what it takes, for the given `reason`. further: it
    may take more than that. instead: what else to write for such a module.

    Raises CompositionError.
    """
    owner = cls.family.__name__
    signature = unary(owner, inner, further=further)
    found = ends_meet(signature)
    if isinstance(found, Signature):
        return found
    takes, gives = signature.inputs[0], signature.outputs[0]
    picture = underlined(owner, parts, {len(parts) - 1: f"takes {takes}, gives {gives}"})
    alternatives = []
    for end, length in (
        ("gives", axis_at(takes, found.axis)),
        ("takes", axis_at(gives, found.axis)),
    ):
        new = inner.adjusted(end, found.axis, length) if length else None  # type: ignore[arg-type]
        if new is not None and isinstance(ends_meet(new.shapes()), Signature):
            alternatives.append((repr(inner), repr(new)))
    ends = change(alternatives[0]) if alternatives else ""
    if len(alternatives) == 2:
        ends = f"{ends[:-1]}, or to {alternatives[1][1]}."
    also = instead(inner)
    other = f"\n  Or {also}." if also and ends else sentence(also) or padding(inner)
    raise CompositionError(f"{reason}\n\n{picture}{ends}{other}")


def ends_meet(signature: Signature) -> Signature | Misfit:
    """The signature with its output made equal to its input, or why it cannot be."""
    solver = Solver.of(signature)
    try:
        solver.equal(signature.outputs[0], signature.inputs[0])
    except Misfit as misfit:
        return misfit
    return solver.result(signature.inputs, signature.outputs).tidy()


def axis_at(pattern: Pattern, axis: int | None) -> int | None:
    """The length of an axis, if it is known."""
    found = None if axis is None else pattern.axes[axis]
    return found if isinstance(found, int) else None


def both_ends(inner: type[Module], axis: int, length: int) -> Any:
    """The module with an axis of both its ends changed; None if that cannot be."""
    new = inner.adjusted("takes", axis, length)
    new = new and (new.adjusted("gives", axis, length) or new)
    return new if new and isinstance(ends_meet(new.shapes()), Signature) else None


def tidy(pattern: Pattern) -> Pattern:
    """A pattern of a chain as its layer writes it."""
    return Signature((pattern,), ()).tidy().inputs[0]


class Chain(Container):
    """The parent of combinators that run modules one after the other."""

    LAYERS = modules()
    placeholders: ClassVar[dict[str, str]] = {"LAYERS": "A, B, …"}

    @classmethod
    def parts(cls) -> tuple[type[Module], ...]:
        return cls.LAYERS

    @classmethod
    def compose(cls) -> Signature:
        return composed(cls, cls.parts())

    @classmethod
    def changed(cls, end: Literal["takes", "gives"], axis: int, length: int) -> Any:
        layers = replaced(cls.parts(), end, axis, length)
        return layers and tuple(layers)


class Loop(Wrapper):
    """The parent of combinators of one module that must give the shape it takes."""

    @classmethod
    def changed(cls, end: Literal["takes", "gives"], axis: int, length: int) -> Any:
        return both_ends(cls.INNER, axis, length)
