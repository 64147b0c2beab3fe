"""Groups of parameters in training: against PyTorch, and what is frozen."""

from __future__ import annotations

import pytest
from needs import needs_cxx
from program_networks import data
from torch_twin import Twin, TwinNet

import noeira
from noeira.errors import OptionError
from noeira.nn import AdamW, CrossEntropy, Group, LinearReLU, Sequential
from noeira.stages import stages_of

TARGETS = ["reference", "cpu", pytest.param("cuda-cpu", marks=[needs_cxx, pytest.mark.slow])]
FROZEN = Group(frozen=True)


def program_of(target: str = "cpu", **groups: Group) -> noeira.Program:
    """The network of the twin with groups by pattern."""
    return noeira.compile(
        TwinNet,
        loss=CrossEntropy,
        optimizer=AdamW(lr=1e-2, weight_decay=0.1),
        groups=groups,
        batch=20,
        target=target,
    )


@pytest.mark.parametrize("target", TARGETS)
def test_groups_are_those_of_pytorch(target: str) -> None:
    x, y = data(20)
    groups = {"0.weight": Group(lr_factor=0.1), "1.*": Group(lr_factor=2.0, weight_decay=0.5)}
    program = program_of(target, **groups)
    twin = Twin(program)
    weights = twin.weights
    optimizer = twin.torch.optim.AdamW(
        [
            {"params": [weights["0.weight"]], "lr": 1e-3, "weight_decay": 0.1},
            {"params": [weights["0.bias"]], "lr": 1e-2, "weight_decay": 0.0},
            {"params": [weights["1.weight"], weights["1.bias"]], "lr": 2e-2, "weight_decay": 0.5},
        ]
    )
    for _ in range(20):
        twin.step(optimizer, x, y)
        program.step(x, y)
    twin.check(program, 1e-3, 1e-4)


@pytest.mark.parametrize("target", TARGETS)
def test_what_is_frozen_stays(target: str) -> None:
    x, y = data(20)
    # The first group that matches counts: all but the last layer's bias.
    program = program_of(target, **{"1.bias": Group(lr_factor=3.0), "*": FROZEN})
    before = {name: program.params[name].copy() for name in program.params}
    for _ in range(3):
        program.step(x, y)
    for name, value in before.items():
        assert (program.params[name].tobytes() == value.tobytes()) == (name != "1.bias")


def test_what_is_frozen_has_no_gradients() -> None:
    def ops(**options: object) -> list[str]:
        stages = stages_of(TwinNet, optimizer=AdamW, **options)
        return [node.op.name for node in stages.fused.graph.nodes]

    # Of the first layer neither the product that gives its weight's gradient, nor the sums of its
    # bias's, nor the gradient of its activation are there.
    assert len(ops(groups={"0.*": FROZEN})) < len(ops()) - 1


def test_groups_say_what_is_wrong() -> None:
    def message(net: type, groups: object) -> str:
        with pytest.raises(OptionError) as error:
            noeira.compile(net, loss=CrossEntropy, optimizer=AdamW, groups=groups)
        return str(error.value)

    net = Sequential[LinearReLU[13, 17], LinearReLU[17, 5]]
    assert message(net, {"2.*": FROZEN}) == (
        "groups: '2.*' matches no parameter; there is 0.weight, for one"
    )
    assert message(net, {"1.wieght": FROZEN}) == (
        "groups: '1.wieght' matches no parameter; there is 1.weight, for one"
    )
    assert message(net, {"*": Group(lr_factor=2.0), "0.*": FROZEN}) == (
        "groups: all that '0.*' matches, such as 0.weight, is in the group of '*' before it: the "
        "first that matches counts, so write it later"
    )
    assert message(net, {"*": FROZEN}) == (
        "groups: every parameter is frozen, so there is nothing to train"
    )
    assert message(net, {"0.*": 0.1}) == (
        "groups: '0.*' must be a Group(lr_factor=…, weight_decay=…, frozen=…), not 0.1"
    )
    assert message(net, [FROZEN]).startswith("groups says by name pattern what is other")


def test_a_group_says_what_is_wrong() -> None:
    def message(**options: object) -> str:
        with pytest.raises(OptionError) as error:
            Group(**options)
        return str(error.value)

    assert message(lr_factor=-1) == "Group: lr_factor must be 0 or greater, not -1.0"
    assert message(rate=1) == "Group has no option rate; it has lr_factor, weight_decay, frozen"
    assert message(weight_decay="no") == "Group: weight_decay must be 0 or greater, not 'no'"
    assert message(frozen=1) == "Group: frozen must be True or False, not 1"
    assert message(frozen=True, lr_factor=2.0) == (
        "Group: what is frozen has no learning rate and no weight decay"
    )
    assert message() == ("Group() says nothing: give lr_factor=…, weight_decay=… or frozen=True")
