"""The options of a compile: names, order, defaults and checks, once for `compile`, `Trainer`, the
reports and the commands.

`compile(net)` makes what it is told to make and no more: without a loss there is `forward` alone.
A trainer trains, and a report answers what training costs: both have the defaults of `training`.
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial, wraps
from typing import Any, Literal, TypeAlias, TypedDict, TypeVar, cast

from noeira.codegen.choices import ChoicesLike
from noeira.errors import CompositionError, OptionError
from noeira.habits import instead
from noeira.ir.choices import NO_CHOICES, Choices
from noeira.ir.groups import Groups
from noeira.ir.numbers import finite_number, whole_number
from noeira.ir.random import check_seed
from noeira.nn.clipping import Clipping, clipping
from noeira.nn.core.binding import short
from noeira.nn.core.criteria import check_metrics, target_patterns
from noeira.nn.core.init import Initializer, Kaiming, initializer
from noeira.nn.core.instance import check_dtype
from noeira.nn.core.module import Module, solved_for
from noeira.nn.core.option_value import OptionValue
from noeira.nn.core.signature import Shape
from noeira.nn.groups import Group, check_groups, groups_of
from noeira.nn.losses.base import Loss, LossLike, loss_type
from noeira.nn.losses.classes import CrossEntropy
from noeira.nn.metrics import Accuracy, Metric, MetricLike, metric_name, metric_types
from noeira.nn.optimizer import Adam, Optimizer
from noeira.nn.optimizer import optimizer as optimizer_value
from noeira.nn.schedule import Schedule
from noeira.nn.schedule import schedule as schedule_value
from noeira.runtime.targets import target_called

Given: TypeAlias = Mapping[str, Any]
Function = TypeVar("Function", bound=Callable[..., Any])


# Options that may be None, which is as if they were not given.
NONE = ("loss", "optimizer", "input", "metrics", "choices", "schedule", "clip", "groups", "ema")
# Options that say how an optimizer is used.
OF_OPTIMIZER = ("schedule", "clip", "groups", "accumulate", "ema")


class TraceOptions(TypedDict, total=False):
    """What decides one traced graph besides the network, as a user gives it; see `Options`."""

    loss: LossLike | None
    batch: int
    input: Shape | tuple[Shape, ...] | None
    init: Initializer | type[Initializer]
    dtype: Literal["f32", "f64"]
    metrics: Sequence[MetricLike] | None


class GraphOptions(TraceOptions, total=False):
    """What decides all graphs of a program."""

    optimizer: Optimizer | type[Optimizer] | None
    schedule: Schedule | None
    clip: Clipping | None
    groups: Mapping[str, Group] | None
    accumulate: int
    ema: float | None
    fold: bool


class CompileOptions(GraphOptions, total=False):
    """The same, what they begin with, and what they are compiled for."""

    seed: int
    target: str
    choices: ChoicesLike


def counting_number(name: str, value: Any) -> int:
    """The value, at least 1. Raises OptionError."""
    number = whole_number(value)
    if number is None or number < 1:
        raise OptionError(f"{name} must be a whole number of at least 1, not {value!r}")
    return number


def flag(name: str, value: Any) -> bool:
    """The value, True or False. Raises OptionError."""
    if not isinstance(value, bool):
        raise OptionError(f"{name} is True or False, not {value!r}")
    return value


def decay(value: Any) -> float:
    """The decay of a moving average. Raises OptionError."""
    number = finite_number(value)
    if number is None or not 0 <= number < 1:
        raise OptionError(
            f"ema is the decay of a moving average, at least 0 and less than 1, such as 0.999, "
            f"not {value!r}"
        )
    return number


@dataclass(frozen=True, kw_only=True)
class Options:
    """The options of a compile, each checked and in its one form. Made by `options_of`.

    loss: gives a program `gradients`, with an optimizer also `step`, `load` and `steps`.
    batch: rows of a step; `forward` takes any number. input: shapes of one sample, for axes that
    the type leaves open. init: initial values. dtype: of the parameters. metrics: for `evaluate`;
    by default Accuracy, where the loss takes class numbers.
    schedule: of the learning rate. clip: how gradients are clipped. groups: by name patterns, what
    some parameters have of their own. accumulate: parts that a batch is taken in, whose gradients
    are added up. ema: the decay of a moving average of the parameters. fold: whether `forward` has
    normalisations by running statistics folded into the weights before them.
    seed: of the initial values, and of the order of training data. target: `cpu`; `cuda`, a GPU;
    `cuda-cpu`, the same kernels as on a GPU, executed by the CPU; or `reference` (NumPy; also what
    `cpu` falls back to without a compiler, and says so). choices: a table of tuned choices or its
    file (see `noeira tune`), by default that of NOEIRA_CHOICES.
    """

    # read: makes the one form of what a user gives, or raises; what has none is as it is given.
    loss: type[Loss] | None = field(default=None, metadata={"read": loss_type})
    optimizer: Optimizer | None = field(default=None, metadata={"read": optimizer_value})
    schedule: Schedule | None = field(default=None, metadata={"read": schedule_value})
    clip: Clipping | None = field(default=None, metadata={"read": clipping})
    groups: Groups = field(default=(), metadata={"read": groups_of})
    accumulate: int = field(default=1, metadata={"read": partial(counting_number, "accumulate")})
    ema: float | None = field(default=None, metadata={"read": decay})
    fold: bool = field(default=False, metadata={"read": partial(flag, "fold")})
    batch: int = field(default=1, metadata={"read": partial(counting_number, "batch")})
    input: Shape | tuple[Shape, ...] | None = None
    init: Initializer = field(default=Kaiming(), metadata={"read": initializer})
    dtype: Literal["f32", "f64"] = field(default="f32", metadata={"read": check_dtype})
    metrics: tuple[type[Metric], ...] = field(default=(), metadata={"read": metric_types})
    seed: int = field(default=0, metadata={"read": check_seed})
    target: str = field(default="cpu", metadata={"read": target_called})
    choices: Choices = NO_CHOICES

    @property
    def rows(self) -> int:
        """The rows that are worked on at a time: a batch, or a part of it."""
        return self.batch // self.accumulate

    @property
    def metric_names(self) -> tuple[str, ...]:
        """What evaluation calls its metrics: `accuracy`, `top_k[5]`."""
        return tuple(map(metric_name, self.metrics))


def training(given: Given) -> Given:
    """The options with the defaults of training: CrossEntropy, Adam and a batch of 100."""
    found = {"loss": CrossEntropy, "batch": 100} | dict(given)
    return found if found["loss"] is None else {"optimizer": Adam()} | found


def options_of(
    net: type[Module] | Module,
    given: Given,
    place: str,
    taken: type = CompileOptions,
    input_later: bool = False,
) -> tuple[type[Module], Options]:
    """The type of a network and its options. taken: those that there are. input_later: axes that
    the type leaves open may still be open.

    Raises OptionError for an option that cannot be or has no effect, CompositionError for a network
    that is no whole network, ShapeError for an `input` that does not fit.
    """
    check_names(given, place, taken)
    kind = network_type(net, place)
    if isinstance(net, Module):
        given = of_instance(net, given)
    found: dict[str, Any] = {n: v for n, v in given.items() if v is not None or n not in NONE}
    for one in fields(Options):
        if one.name in found and "read" in one.metadata:
            found[one.name] = one.metadata["read"](found[one.name])
    target = found.get("target", target_called(Options.target))
    found |= {"target": target.name, "choices": target.table(found.get("choices"))}
    options = Options(**found)
    check_together(kind, options)
    return kind, with_default_metrics(kind, options, "metrics" not in found, input_later)


def check_names(
    given: Given, place: str, options: type = CompileOptions, own: Sequence[str] = ()
) -> None:
    """Raises OptionError for an option that there is not. own: what else `place` takes by name."""
    known = [*own, *names_of(options)]
    for name in given:
        if name not in known:
            if advice := instead(place, name):
                raise OptionError(f"{place} has no option {name}{advice}")
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise OptionError(f"{place} has no option {name}; it has {', '.join(known)}{hint}")


def names_of(options: type) -> list[str]:
    """The names of options, those of a compile first and in their order."""
    own, order = options.__annotations__, [f.name for f in fields(Options)]
    return [name for name in order if name in own] + [name for name in own if name not in order]


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
    trained = [path for path, info in net.parameters().items() if not info.frozen]
    if options.optimizer is not None and not trained:
        which = "no parameters" if not net.parameters() else "no parameters that are not fixed"
        raise OptionError(f"{net!r} has {which}, so there is nothing to train")
    if options.batch % options.accumulate:
        raise OptionError(
            f"accumulate={options.accumulate} does not divide batch={options.batch}: a batch is "
            f"taken in equal parts; batch={options.rows * options.accumulate or options.accumulate}"
            " would do"
        )
    if options.optimizer is not None:
        options.optimizer.check_fits(options.dtype)
    given = [name for name in OF_OPTIMIZER if getattr(options, name) not in (None, (), 1)]
    if given and options.optimizer is None:
        raise OptionError(f"{given[0]} goes with an optimizer: loss=…, optimizer=…, {given[0]}=…")
    if options.groups:
        check_groups(options.groups, trained)


def with_default_metrics(
    net: type[Module], options: Options, default: bool, input_later: bool
) -> Options:
    """The options, held against what the network gives, with Accuracy where metrics were not given
    and the loss takes class numbers. Raises OptionError if metrics and loss want different targets.
    """
    if input_later and options.input is None:
        return options
    outputs = solved_for(net, options.input).outputs
    if options.loss is None:
        return options
    if default:
        targets = target_patterns(net, outputs, [options.loss])
        if len(outputs) == 1 and targets and targets[0].limit:
            options = replace(options, metrics=(Accuracy,))
    check_metrics(net, outputs, options.loss, options.metrics, options.dtype)
    return options


def takes(options: type, defaults: Given | None = None) -> Callable[[Function], Function]:
    """Let `help` show the options of a function one by one: type checkers know what `**options`
    stands for, Python does not. An option that is given by its place raises OptionError.
    """
    shown = {f.name: f.default for f in fields(Options)}
    shown |= dict.fromkeys(NONE) | dict(defaults or {})

    def mark(function: Function) -> Function:
        signature = inspect.signature(function)
        own = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
        more = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=shown[name])
            for name in names_of(options)
        ]
        places = [p.name for p in own if p.kind is p.POSITIONAL_OR_KEYWORD]

        @wraps(function)
        def checked(*args: Any, **options: Any) -> Any:
            if len(args) > len(places):
                raise by_place(function.__qualname__, places, args)
            return function(*args, **options)

        checked.__signature__ = signature.replace(parameters=[*own, *more])  # type: ignore[attr-defined]
        return cast(Function, checked)

    return mark


# What an option's value is, and the option.
KINDS = ((Loss, "loss"), (Optimizer, "optimizer"), (Schedule, "schedule"), (Clipping, "clip"))


def by_place(function: str, places: Sequence[str], args: Sequence[Any]) -> OptionError:
    """The error for options that are given by their places."""
    owner, _, name = function.rpartition(".")
    called = owner if name == "__init__" else name
    taken = [place for place in places if place != "self"]
    meant = [f"{option_of(value)}={brief(value)}" for value in args[len(places) :]]
    return OptionError(
        f"{called}({', '.join([*taken, '…'])}) takes options by their names: "
        f"write {', '.join(meant)}"
    )


def brief(value: Any) -> str:
    """A value in a few words, one with options without these."""
    return f"{type(value).__name__}(…)" if isinstance(value, OptionValue) else short(value)


def option_of(value: Any) -> str:
    """The option that has such values."""
    kind = value if isinstance(value, type) else type(value)
    if issubclass(kind, int):
        return "batch"
    return next((name for parent, name in KINDS if issubclass(kind, parent)), "OPTION")
