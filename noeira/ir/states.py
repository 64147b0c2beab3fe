"""The values that programs have beside those of a network: what passes, programs and instances call
them. A name is the protocol: whoever needs %ok looks for the value of that name.

States, the memory that outlives a call, and whose they are:

    state                       declared by      updated by       its memory belongs to
    %params                     trace            update           the module instance
    %buffers, %PATH.STATE       trace            trace, guard     the module instance
    %tick                       trace            trace            the module instance
    %gradients                  keep_gradients   keep_gradients   the module instance
    %OP.m, %OP.v, %OP.step      update           update           the module instance, for OP
    %ema                        ema              ema              the module instance
    %folded                     prepare          prepare          the module instance
    %seed                       trace            nobody           the program
    %draws                      trace            trace            the program
    %lr                         update, anneal   its user         the program
    %epoch_steps                anneal           nobody           the program, for its data set
    %gathered, %gathered_rows   accumulate       accumulate       the program
    %cursor %bad %total.RESULT  resident         resident         the program, for its data set

A checkpoint has them all but those that say nothing to a later step (`outlives`).

What belongs to an instance is shared by its programs, and copied and pickled with it. Moments carry
the name of their optimizer's op, so that no other one takes them for its own: averages of squares
are not sums of them. Programs whose optimizers are one op with other options, such as Adam and
AdamW, go on with each other's moments and count of updates. %gradients holds what the last
call gave: gradients that are summed over calls need a state of their own.
"""

from __future__ import annotations

import re

from noeira.ir.types import TensorType

COUNTER, FLAG, TOTAL = TensorType("i64", ()), TensorType("bool", ()), TensorType("f64", ())

# The parameters; the buffers of modules that have the network's dtype; the gradients of one call.
PARAMS, BUFFERS, GRADIENTS = "params", "buffers", "gradients"
# Calls of training entries that were made, ok or not; with the seed, what random numbers follow
# from.
TICK, SEED = "tick", "seed"
# What stands for %tick where nothing is trained: calls of an evaluation that draws random numbers.
# So training does not depend on how often one looks at it.
DRAWS = "draws"
# What a normalisation is folded into, made of parameters and buffers when these have changed.
FOLDED = "folded"
# What optimizers call theirs: moments, and the updates that were made.
FIRST_MOMENT, SECOND_MOMENT, STEP = "m", "v", "step"
# The learning rate, the samples taken so far, and the tick of the first call that was not ok, or
# -1.
LEARNING_RATE, CURSOR, BAD = "lr", "cursor", "bad"
# The moving average of the parameters; the updates in an epoch, for schedules that count epochs.
EMA, EPOCH_STEPS = "ema", "epoch_steps"
# Gradients that are added up over batches of one step, and the rows that they are of, by now.
GATHERED, GATHERED_ROWS = "gathered", "gathered_rows"

# Inputs, and the values that passes look for.
INPUT, TARGET, ORDER = "x", "target", "order"
# What the order of an epoch follows from, beside the seed.
EPOCH = "epoch"
LOSS, OK, GRADS = "loss", "ok", "grads"
# Gradients as the optimizer reads them: the mean over the batches of a step, then those clipped.
MEAN_GRADS, CLIPPED = "grads.mean", "grads.clipped"
# The norm of all gradients before clipping, the factor that clips them, the scheduled rate.
GRAD_NORM, CLIP, RATE = "grad_norm", "clip", "rate"

INSTANCES = frozenset({PARAMS, BUFFERS, GRADIENTS, TICK, EMA, FOLDED})
# States that say nothing to a later step.
PASSING = frozenset({GRADIENTS, FOLDED, BAD, EPOCH_STEPS, GATHERED, GATHERED_ROWS})
PROGRAMS = frozenset(
    {SEED, DRAWS, LEARNING_RATE, CURSOR, BAD, EPOCH_STEPS, GATHERED, GATHERED_ROWS}
)
# Names that nothing in a network may have.
RESERVED = (
    INSTANCES
    | PROGRAMS
    | {INPUT, TARGET, ORDER, LOSS, OK, GRADS, MEAN_GRADS, CLIPPED, GRAD_NORM, CLIP, RATE}
)
# Those that passes make of others, by `total` and `data_set`; and those of metrics.
RESERVED_FORMS = re.compile(rf"total\..*|data\.({INPUT}|{TARGET})\d*")
METRICS = re.compile(r"metric\.\d+\.(sum|count)")


def numbered(name: str, count: int) -> tuple[str, ...]:
    """What inputs or targets are called: `x`, or `x0`, `x1`, … if there are several."""
    return (name,) if count == 1 else tuple(f"{name}{index}" for index in range(count))


def is_target(name: str) -> bool:
    """Whether an input is a target: `target`, `target0`, …"""
    return name.startswith(TARGET) and (name == TARGET or name[len(TARGET) :].isdecimal())


def metric_sum(index: int) -> str:
    """What is added up for metric `index`; its value is this over its count."""
    return f"metric.{index}.sum"


def metric_count(index: int) -> str:
    """How many things the sum of metric `index` is about."""
    return f"metric.{index}.count"


def is_of_metric(name: str) -> bool:
    """Whether a name is that of the sum or the count of some metric."""
    return METRICS.fullmatch(name) is not None


def data_set(name: str) -> str:
    """The resident data set that an input is taken from."""
    return f"data.{name}"


def total(name: str) -> str:
    """The state that adds up a result over calls."""
    return f"total.{name}"


def optimizer_state(op: str, name: str) -> str:
    """What the optimizer `op` keeps under a name: a moment, or its count of updates."""
    return f"{op}.{name}"


def is_of_program(name: str) -> bool:
    """Whether the memory of a state belongs to the program; else it is the module instance's."""
    return name in PROGRAMS or name.startswith(total(""))


def outlives(name: str) -> bool:
    """Whether training needs a state to go on where it stopped, between two steps."""
    return name not in PASSING and not name.startswith(total(""))


def is_reserved(name: str) -> bool:
    """Whether a name belongs to all programs and their passes; those of the states of an optimizer
    belong to its programs only.
    """
    return name in RESERVED or RESERVED_FORMS.fullmatch(name) is not None
