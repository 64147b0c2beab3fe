"""The networks that the benchmarks train."""

from __future__ import annotations

from noeira.nn import Linear, LinearReLU, Repeat, Sequential


class MLP(Sequential[LinearReLU[784, 256], LinearReLU[256, 128], Linear[128, 10]]):
    """MNIST classifier: the network of the peers' `mlp_…` configurations."""


class Deep(Sequential[Repeat[12, LinearReLU[1024, 1024]], Linear[1024, 10]]):
    """Twelve wide layers."""
