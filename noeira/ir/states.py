"""The values that every training program has beside those of its network: names and types."""

from __future__ import annotations

from noeira.ir.types import TensorType

COUNTER, FLAG, TOTAL = TensorType("i64", ()), TensorType("bool", ()), TensorType("f64", ())

# States of the module instance, which its programs share: flat ones of the layout, and counters.
PARAMS, GRADIENTS, FIRST_MOMENT, SECOND_MOMENT = "params", "gradients", "m", "v"
# Optimizer updates that were made, and calls.
STEP, TICK = "step", "tick"
SHARED = (PARAMS, GRADIENTS, FIRST_MOMENT, SECOND_MOMENT, STEP, TICK)

# States of a program: the learning rate, the samples taken from its data so far, and the tick of
# the first call that was not ok, or -1.
LEARNING_RATE, CURSOR, BAD = "lr", "cursor", "bad"

# Inputs, and the values that passes look for.
INPUT, TARGET, ORDER = "x", "target", "order"
# What the order of an epoch follows from.
SEED, EPOCH = "seed", "epoch"
LOSS, OK, GRADS = "loss", "ok", "grads"

# Names that nothing in a network may have.
RESERVED = frozenset({*SHARED, LEARNING_RATE, CURSOR, BAD, INPUT, TARGET, ORDER, LOSS, OK, GRADS})


def total(name: str) -> str:
    """The state that adds up a result over calls."""
    return f"total.{name}"


def is_reserved(name: str) -> bool:
    """Whether a name belongs to programs."""
    return name in RESERVED or name.startswith(total(""))
