"""What the tensors of residual networks are called in PyTorch: the name map of torchvision's files,
and of the usual ones for CIFAR-10.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from noeira.errors import OptionError
from noeira.nn.core.module import Module
from noeira.nn.core.parameters import walk
from noeira.nn.models.resnet import ResNet
from noeira.nn.name_map import NameMap, Row, check_network_type, counters

__all__ = ["resnet_names"]

# What files have of a head, where the network has none.
HEAD = ("fc.weight", "fc.bias")


def resnet_names(network: type[Module], keep: Iterable[str] = ()) -> NameMap:
    """The name map to PyTorch of a residual network: of `ResNet18` and `ResNet34`, with heads or as
    backbones, to torchvision's `resnet18` and `resnet34`; of `ResNet20` and its like to those that
    call their head `linear` and have shortcuts without parameters.

    network: one of these, or a network that has one inside, such as behind `Standardize`, whose
    other tensors then stay as they are when a file is loaded. keep: patterns of what stays too,
    such as the head of other classes, `["fc.*"]`. What files count in training,
    `num_batches_tracked`, is ignored, as is the head where the network has none.
    Raises OptionError for a network that has no residual network inside or several, and for a
    pattern that no tensor has.
    """
    check_network_type(network)
    found = [(path, module) for path, module, _ in walk(network) if issubclass(module, ResNet)]
    if len(found) != 1:
        count = "several residual networks" if found else "no residual network"
        raise OptionError(
            f"resnet_names: {network!r} has {count} inside, such as ResNet18[10]; of another "
            "network write NameMap.of(…), or a NameMap of rows"
        )
    ((path, resnet),) = found
    front = f"{path}." if path else ""
    named = NameMap.of(network, keep=keep).rows
    rows = [beside(row, front) for row in named if row.ours]
    rows += [Row(theirs=name, kind="ignore") for name in counters(rows)]
    if "fc.weight" not in resnet.parameters() and "linear.weight" not in resnet.parameters():
        rows += [Row(theirs=name, kind="ignore") for name in HEAD]
    return NameMap(network, rows)


def beside(row: Row, front: str) -> Row:
    """A row of the whole network: of the residual network's tensors as that calls them, of others
    as one that keeps them.
    """
    if row.ours.startswith(front):
        return replace(row, theirs=row.theirs.removeprefix(front))
    return replace(row, keep=True)
