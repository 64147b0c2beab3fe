"""The options of a compile: names, order, defaults and checks, once for `compile`, `Trainer`, the
reports and the commands.

`compile(net)` makes what it is told to make and no more: without a loss there is `forward` alone.
A trainer trains, and a report answers what training costs: both have the defaults of `training`.
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, TypeAlias, TypedDict, TypeVar

from noeira.codegen.choices import ChoicesLike
from noeira.errors import CompositionError, OptionError
from noeira.ir.choices import NO_CHOICES, Choices
from noeira.ir.numbers import whole_number
from noeira.ir.random import check_seed
from noeira.nn.core.criteria import check_metrics, target_patterns
from noeira.nn.core.init import Initializer, Kaiming, initializer
from noeira.nn.core.instance import check_dtype
from noeira.nn.core.module import Module
from noeira.nn.core.signature import Shape
from noeira.nn.core.trace import per_sample
from noeira.nn.loss import CrossEntropy, Loss, LossLike, loss_type
from noeira.nn.metrics import Accuracy, MetricLike, metric_types
from noeira.nn.optimizer import Adam, Optimizer
from noeira.nn.optimizer import optimizer as optimizer_value
from noeira.runtime.targets import target_called

Given: TypeAlias = Mapping[str, Any]
Function = TypeVar("Function", bound=Callable[..., Any])


class GraphOptions(TypedDict, total=False):
    """What decides the graphs of a program besides the network, as a user gives it.

    loss: gives a program `gradients`, with an optimizer also `step`, `load` and `steps`.
    batch: rows of a step; `forward` takes any number. input: shapes of one sample, for axes that
    the type leaves open. init: initial values. dtype: of the parameters. metrics: for `evaluate`;
    by default Accuracy, where the loss takes class numbers.
    """

    loss: LossLike | None
    optimizer: Optimizer | type[Optimizer] | None
    batch: int
    input: Shape | tuple[Shape, ...] | None
    init: Initializer | type[Initializer]
    dtype: Literal["f32", "f64"]
    metrics: Sequence[MetricLike] | None


class CompileOptions(GraphOptions, total=False):
    """The same, what they begin with, and what they are compiled for.

    seed: of the initial values, and of the order of training data. target: `cpu`; `cuda`, a GPU;
    `cuda-cpu`, the same kernels as on a GPU, executed by the CPU; or `reference` (NumPy; also what
    `cpu` falls back to without a compiler, and says so). choices: a table of tuned choices or its
    file (see `noeira tune`), by default that of NOEIRA_CHOICES.
    """

    seed: int
    target: str
    choices: ChoicesLike


@dataclass(frozen=True, kw_only=True)
class Options:
    """The options of a compile, each checked and in its one form. Made by `options_of`."""

    loss: type[Loss] | None = None
    optimizer: Optimizer | None = None
    batch: int = 1
    input: Shape | tuple[Shape, ...] | None = None
    init: Initializer = Kaiming()  # noqa: RUF009  (a frozen value)
    dtype: Literal["f32", "f64"] = "f32"
    metrics: tuple[type[Module], ...] = ()
    seed: int = 0
    target: str = "cpu"
    choices: Choices = NO_CHOICES

    @property
    def metric_names(self) -> tuple[str, ...]:
        """What evaluation calls its metrics: `accuracy`, `topk[5]`."""
        return tuple(repr(kind).lower() for kind in self.metrics)


def training(given: Given) -> Given:
    """The options with the defaults of training: CrossEntropy, Adam and a batch of 100."""
    found = {"loss": CrossEntropy, "batch": 100} | dict(given)
    return found if found["loss"] is None else {"optimizer": Adam()} | found


def options_of(
    net: type[Module] | Module, given: Given, place: str, input_later: bool = False
) -> tuple[type[Module], Options]:
    """The type of a network and its options. input_later: axes that the type leaves open may still
    be open.

    Raises OptionError for an option that cannot be or has no effect, CompositionError for a network
    that is no whole network, ShapeError for an `input` that does not fit.
    """
    check_names(given, place)
    kind = network_type(net, place)
    if isinstance(net, Module):
        given = of_instance(net, given)
    target = target_called(given.get("target", Options.target))
    loss, optimizer = given.get("loss"), given.get("optimizer")
    metrics = given.get("metrics")
    options = Options(
        loss=None if loss is None else loss_type(loss),
        optimizer=None if optimizer is None else optimizer_value(optimizer),
        batch=counting_number("batch", given.get("batch", Options.batch)),
        input=given.get("input"),
        init=initializer(given.get("init", Options.init)),
        dtype=check_dtype(given.get("dtype", Options.dtype)),
        metrics=() if metrics is None else metric_types(metrics),
        seed=check_seed(given.get("seed", Options.seed)),
        target=target.name,
        choices=target.table(given.get("choices")),
    )
    check_together(kind, options)
    return kind, with_default_metrics(kind, options, metrics is None, input_later)


def check_names(given: Given, place: str, options: type = CompileOptions) -> None:
    """Raises OptionError for an option that there is not."""
    known = list(options.__annotations__)
    for name in given:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise OptionError(f"{place} has no option {name}; it has {', '.join(known)}{hint}")


def network_type(net: Any, place: str) -> type[Module]:
    """The type of a whole network. Raises CompositionError for anything else."""
    if isinstance(net, Module):
        if net.path:
            raise CompositionError(f"{place} takes a whole network; this is its part at {net.path}")
        return type(net)
    if not isinstance(net, type) or not issubclass(net, Module):
        raise CompositionError(f"{place} takes a network type such as Linear[784, 10], not {net!r}")
    net.need_parameters(place)
    return net


def of_instance(net: Module, given: Given) -> Given:
    """The options for an instance, which has its initial values and its dtype already. Raises
    OptionError for others.
    """
    if "init" in given:
        raise OptionError(
            f"init has no effect on an instance, which has its values: write {type(net)!r}(init=…)"
        )
    if given.get("dtype", net.store.dtype) != net.store.dtype:
        raise OptionError(
            f"the instance's parameters are {net.store.dtype}, not {given['dtype']}: "
            f"write {type(net)!r}(dtype={given['dtype']!r})"
        )
    return {**given, "dtype": net.store.dtype}


def check_together(net: type[Module], options: Options) -> None:
    """Raises OptionError for options that do not go together."""
    if options.optimizer is not None and options.loss is None:
        raise OptionError("an optimizer needs a loss: loss=CrossEntropy, optimizer=…")
    if options.metrics and options.loss is None:
        raise OptionError("metrics need a loss, whose targets they read: loss=…, metrics=…")
    if options.optimizer is not None and not net.parameters():
        raise OptionError(f"{net!r} has no parameters, so there is nothing to train")


def with_default_metrics(
    net: type[Module], options: Options, default: bool, input_later: bool
) -> Options:
    """The options, held against what the network gives, with Accuracy where metrics were not given
    and the loss takes class numbers. Raises OptionError if metrics and loss want different targets.
    """
    if input_later and options.input is None:
        return options
    outputs = net.solve(*per_sample(net, options.input)).outputs
    if options.loss is None:
        return options
    if default:
        targets = target_patterns(net, outputs, [options.loss])
        if len(outputs) == len(targets) == 1 and targets[0].limit:
            options = replace(options, metrics=(Accuracy,))
    check_metrics(net, outputs, options.loss, options.metrics, options.dtype)
    return options


def counting_number(name: str, value: Any) -> int:
    """The value, at least 1. Raises OptionError."""
    number = whole_number(value)
    if number is None or number < 1:
        raise OptionError(f"{name} must be a whole number of at least 1, not {value!r}")
    return number


def takes(options: type, defaults: Given | None = None) -> Callable[[Function], Function]:
    """Let `help` show the options of a function one by one: type checkers know what `**options`
    stands for, Python does not.
    """
    shown = {field.name: field.default for field in fields(Options)}
    shown |= {"metrics": None, "choices": None, **(defaults or {})}

    def mark(function: Function) -> Function:
        signature = inspect.signature(function)
        own = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
        more = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=shown[name])
            for name in options.__annotations__
        ]
        function.__signature__ = signature.replace(parameters=[*own, *more])  # type: ignore[attr-defined]
        return function

    return mark
