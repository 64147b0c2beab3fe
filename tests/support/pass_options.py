"""Every pass with options that its text must say."""

from __future__ import annotations

from noeira.passes.accumulate import Accumulate
from noeira.passes.anneal import Anneal
from noeira.passes.base import Pass
from noeira.passes.clip import Clip
from noeira.passes.dce import DeadCodeElimination
from noeira.passes.ema import MovingAverage
from noeira.passes.fold import Fold
from noeira.passes.fuse import Fuse
from noeira.passes.guard import Guard
from noeira.passes.hold import Hold
from noeira.passes.keep_gradients import KeepGradients
from noeira.passes.order import Order
from noeira.passes.own import Own
from noeira.passes.prepare import Prepare
from noeira.passes.recompute import Recompute
from noeira.passes.resident import Resident
from noeira.passes.schedule import Schedule
from noeira.passes.update import ApplyOptimizer
from noeira.passes.vjp import Vjp

OPTIONS: list[Pass] = [
    Vjp(),
    Vjp("cost"),
    Vjp(groups=(("0.*", (("frozen", True),)), ("*.bias", (("lr_factor", 0.5),)))),
    Accumulate(),
    Accumulate(25, complete=True),
    Clip(),
    Clip("clip_value", (("limit", 0.5),), (("0.*", (("frozen", True),)),)),
    Anneal(),
    Anneal("step_decay_rate", (("every", 3), ("gamma", 0.5)), "sgd", 0.1, by_epoch=True),
    MovingAverage(),
    MovingAverage(0.5, "sgd"),
    Fold(),
    Prepare(),
    Prepare(makes=True),
    Order(),
    Order(channels_last=False),
    ApplyOptimizer(),
    ApplyOptimizer(groups=(("*.bias", (("weight_decay", 0.1),)),)),
    ApplyOptimizer("sgd", 1e-07, (("momentum", 0.9), ("nesterov", True)), "cost"),
    ApplyOptimizer(options=(("ranges", ()), ("weight_decay", -0.0))),
    Guard(),
    Hold(),
    KeepGradients(),
    Recompute(),
    Resident(),
    Resident(60000, (("loss", 100.0), ("correct", 1.0))),
    DeadCodeElimination(),
    Fuse(),
    Own(),
    Schedule(),
]
