"""Parameters and states: on a type without memory, on an instance as views of its store."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest
from usage_types import MLP, Affine

import noeira
from noeira.errors import CompositionError, NoeiraError, OptionError, ShapeError
from noeira.ir.random import INITIAL_STREAM, Distribution, constant, fill
from noeira.nn import (
    Adam,
    Buffer,
    CrossEntropy,
    Deterministic,
    Fused,
    Kaiming,
    Linear,
    LinearReLU,
    Module,
    Normal,
    Parallel,
    Param,
    ReLU,
    Repeat,
    Residual,
    Sequential,
    Tanh,
    size,
)

Small = Sequential[LinearReLU[4, 3], Linear[3, 2, False]]


class Filter(Module):
    """A weight that is no matrix, a scale that begins with 1, and running statistics."""

    IC, OC, K = size(), size(), size()
    weight = Param("OC", "IC", "K", "K", fans=("IC*K*K", "OC*K*K"))
    gamma = Param("OC", init=constant(1.0))
    running_var = Buffer("OC", init=constant(1.0))
    count = Buffer(dtype="i64")
    signature = "(IC, H, W) -> (OC, H, W)"


class TwoFilters(Sequential[Filter[3, 8, 1], Filter[8, 2, 1]]):
    """Importable, to be pickled."""


def test_dotted_paths():
    assert list(Small.parameters()) == ["0.weight", "0.bias", "1.weight"]
    assert list(Linear[3, 4].parameters()) == ["weight", "bias"]
    assert list(Residual[Linear[3, 3]].parameters()) == ["0.weight", "0.bias"]
    assert list(Repeat[2, Linear[3, 3, False]].parameters()) == ["0.weight", "1.weight"]
    assert list(Parallel[ReLU, Linear[3, 4, False]].parameters()) == ["1.weight"]
    assert list(Sequential[ReLU, Residual[LinearReLU[3, 3]]].parameters()) == [
        "1.0.weight",
        "1.0.bias",
    ]
    assert list(ReLU.parameters()) == []


def test_a_fused_type_with_one_parametrised_part_adds_nothing():
    assert list(Sequential[Fused[Linear[3, 4, False], ReLU, Tanh]].parameters()) == ["0.weight"]
    assert list(Fused[Affine[4], Tanh].parameters()) == ["gain", "shift"]
    two = Fused[Affine[4], Tanh, Affine[4, False]]
    assert list(two.parameters()) == ["0.gain", "0.shift", "2.gain"]
    assert list(two.buffers()) == ["0.calls", "2.calls"]


def test_what_is_known_of_a_parameter():
    info = Small.parameters()["0.weight"]
    assert (info.path, info.shape, info.size, info.decay) == ("0.weight", (4, 3), 12, True)
    assert (info.fan_in, info.fan_out, info.init) == (4, 3, "weight")
    assert info.module is Linear[4, 3] and info.module_path == "0"
    assert info.distribution(Normal(0.0, 0.5)) == Distribution("normal", (0.0, 0.5))
    bias = Small.parameters()["0.bias"]
    assert (bias.shape, bias.decay, bias.init) == ((3,), False, "bias")


def test_shapes_and_fans_are_expressions_in_the_type_parameters():
    weight, gamma = Filter[3, 8, 5].parameters().values()
    assert (weight.shape, weight.fan_in, weight.fan_out) == ((8, 3, 5, 5), 75, 200)
    assert weight.decay and not gamma.decay
    assert gamma.distribution(Kaiming()) == constant(1.0)
    var, count = Filter[3, 8, 5].buffers().values()
    assert (var.path, var.shape, var.dtype, var.init) == ("running_var", (8,), None, constant(1.0))
    assert (count.shape, count.dtype, count.size) == ((), "i64", 1)


def test_decayed_parameters_lie_first():
    layout = MLP.layout()
    names = [member.name for member in layout.members]
    weights = ["0.weight", "1.0.0.weight", "1.1.0.weight", "2.weight"]
    assert names == weights + [name.replace("weight", "bias") for name in weights]
    assert all(member.offset % 32 == 0 for member in layout.members)
    assert [member.decay for member in layout.members] == [True] * 4 + [False] * 4
    assert layout.size == 784 * 256 + 2 * 256 * 256 + 2560 + 3 * 256 + 32


def test_a_network_is_described_without_allocating_it():
    huge = Sequential[Linear[10**6, 10**6], Linear[10**6, 10**6]]
    assert sum(info.size for info in huge.parameters().values()) == 2 * (10**12 + 10**6)
    assert huge.gives((10**6,)) == (10**6,)


def test_tensors_of_an_instance_are_views():
    net = Small()
    weight = net[0].weight.val
    assert weight.shape == (4, 3) and weight.dtype == np.float32
    weight[1, 2] = 7.0
    assert net.parameter("0.weight").val[1, 2] == 7.0
    assert net[0].weight.val[1, 2] == 7.0
    assert not net[0].bias.val.any()
    net[0].bias.val = np.arange(3)
    assert list(net.parameter("0.bias").val) == [0, 1, 2]
    with pytest.raises(
        NoeiraError, match="this network have no optimizer that keeps m; there must"
    ):
        _ = net[1].weight.m
    noeira.compile(net, loss=CrossEntropy, optimizer=Adam(), target="reference")
    for kind in ("grd", "m", "v"):
        view = getattr(net[1].weight, kind)
        assert view.shape == (3, 2) and not view.any()
        view[0, 0] = 1.0
        assert getattr(net.parameter("1.weight"), kind)[0, 0] == 1.0
    assert repr(net[0].weight) == "<Parameter 0.weight [4, 3]>"


def test_children_of_an_instance():
    net = MLP()
    assert len(net) == 3 and len(list(net)) == 3
    assert net[0] is net[0] and net[-1] is net[2]
    assert isinstance(net[0], LinearReLU) and isinstance(net, Sequential)
    assert net[1][1][0].weight.path == "1.1.0.weight"
    assert net[0].store is net.store
    assert repr(net[2]) == "<Linear[256, 10] at 2: (*, 256) -> (*, 10), 2,570 parameters>"
    assert repr(net) == "<MLP: (*, 784) -> (*, 10), 335,114 parameters>"
    with pytest.raises(IndexError, match="MLP has 3 layers, there is no 3"):
        net[3]


def test_what_an_instance_does_not_have():
    net = Small()
    with pytest.raises(AttributeError) as found:
        _ = net[1].bias
    assert str(found.value) == "Linear.of(3, 2, bias=False) has no bias: it is made with bias=False"
    with pytest.raises(AttributeError, match=r"LinearReLU\[4, 3\] has no attribute 'nothing'"):
        _ = net[0].nothing
    with pytest.raises(AttributeError, match=r"write \.weight\.val\[\.\.\.\] = …"):
        net[1].weight = np.zeros((3, 2))
    with pytest.raises(ShapeError, match=r"0\.bias has shape \(3,\), not \(4,\)"):
        net[0].bias.val = np.zeros(4)
    with pytest.raises(CompositionError, match="has its layers by whole numbers, not by 'a'"):
        net["a"]  # type: ignore[index]


@pytest.mark.parametrize("made", [Linear[3, 4], LinearReLU[3, 4], Sequential[Linear[3, 4], ReLU]])
def test_an_instance_takes_no_attributes(made: type[Module]):
    net: Any = made()
    for name in ("wieght", "weight", "note"):
        with pytest.raises(AttributeError):
            setattr(net, name, np.zeros((3, 4)))
    with pytest.raises(AttributeError, match="no attribute 'vall'"):
        net.parameter(next(iter(made.parameters()))).vall = 1.0
    assert vars(net).keys() == {"store", "path", "inner"}


def test_what_is_said_of_setting_an_attribute():
    net: Any = LinearReLU[3, 4]()
    with pytest.raises(AttributeError) as found:
        net.weight = np.zeros((3, 4))
    assert str(found.value) == "weight is changed in place: write .weight.val[...] = …"
    with pytest.raises(AttributeError) as found:
        net.wieght = 3
    assert str(found.value) == (
        "LinearReLU[3, 4] has no attribute 'wieght' to set: an instance has the tensors that its "
        "type declares; did you mean .weight.val[...] = …?"
    )


class Block(Module):
    """Children of names, one of them without."""

    D = size()
    signature = "(*, D) -> (*, D)"

    @classmethod
    def children(cls) -> tuple[tuple[str, type[Module]], ...]:
        mlp = Sequential[LinearReLU[cls.D, 8], Linear[8, cls.D]]
        return (("attention", Linear[cls.D, cls.D]), ("mlp", mlp), ("", Affine[cls.D, False]))


def test_children_by_name():
    block: Any = Block[4]()
    assert block.attention is block.child("attention") is block.child(0)
    assert block.attention.weight.path == "attention.weight"
    assert block.mlp[0].bias.path == "mlp.0.bias" and block.gain.path == "gain"
    assert copy.deepcopy(block).mlp.path == pickle.loads(pickle.dumps(block)).mlp.path == "mlp"
    with pytest.raises(AttributeError) as found:
        _ = block.attn
    assert str(found.value) == "Block[4] has no attribute 'attn'; its modules are attention, mlp"
    with pytest.raises(AttributeError, match="has no shift: it is made with shift=False"):
        _ = block.shift
    with pytest.raises(
        CompositionError, match="Block\\[4\\] has no module 'attn'; it has attention"
    ):
        block.child("attn")
    with pytest.raises(CompositionError, match="has no module 3; it has attention"):
        block.child(3)


def test_a_tensor_of_a_size_that_is_none():
    class Extra(Module):
        E = size(None)
        gain = Param("E", init="bias", when="E")
        signature = "(*) -> (*)"

    with pytest.raises(AttributeError) as found:
        _ = Extra().gain
    assert str(found.value) == "Extra has no gain: it is made with E=None"


def test_initial_values_are_a_function_of_type_seed_and_initialiser():
    one, two, other = Small(seed=3), Small(seed=3), Small(seed=4)
    for index, member in enumerate(Small.layout().members):
        values = one.parameter(member.name).val
        assert np.array_equal(values, two.parameter(member.name).val)
        rule = Small.parameters()[member.name].distribution(Kaiming())
        assert np.array_equal(values, fill(rule, 3, INITIAL_STREAM + index, member.shape))
    assert not np.array_equal(one[0].weight.val, other[0].weight.val)
    same = Small(init=Deterministic)
    assert np.allclose(same[0].weight.val.ravel()[:7], np.arange(-3, 4) * 0.1)


def test_a_fused_network_begins_like_its_unfused_twin():
    fused, plain = Small(), Sequential[Sequential[Linear[4, 3], ReLU], Linear[3, 2, False]]()
    assert np.array_equal(fused[0].weight.val, plain[0][0].weight.val)
    assert np.array_equal(fused[1].weight.val, plain[1].weight.val)


def test_dtypes_of_an_instance():
    net = Small(dtype="f64")
    assert net[0].weight.val.dtype == np.float64
    with pytest.raises(OptionError, match="parameters are kept in f32 or f64, not 'f16'"):
        Small(dtype="f16")  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="seed must be"):
        Small(seed=-1)


@pytest.mark.parametrize(
    ("dtype", "message"),
    [
        ("float32", "parameters are kept in f32 or f64, not 'float32': write dtype='f32'"),
        (np.float32, "parameters are kept in f32 or f64, not the class float32: write dtype='f32'"),
        (
            np.dtype("f8"),
            "parameters are kept in f32 or f64, not dtype('float64'): write dtype='f64'",
        ),
        ("i32", "parameters are kept in f32 or f64, not 'i32'"),
    ],
)
def test_a_dtype_is_written_short(dtype: Any, message: str):
    with pytest.raises(OptionError) as found:
        Small(dtype=dtype)
    assert str(found.value) == message


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda net: pickle.loads(pickle.dumps(net))])
def test_a_copy_has_memory_of_its_own(copied: Any):
    net = TwoFilters(seed=3)
    net.store.array("adam.m", net.store.flat_type())
    net[0].gamma.m[...] = 7.0
    net[1].running_var.val[0] = 5.0
    other = copied(net)
    assert type(other) is type(net) and other.store is not net.store
    assert other[0] is other[0] and other[0].store is other.store
    assert np.array_equal(other[1].weight.val, net[1].weight.val)
    assert (other[0].gamma.m == 7.0).all() and other[1].running_var.val[0] == 5.0
    assert other[0].count.val.dtype == np.int64
    assert all(array.ctypes.data % 64 == 0 for array in other.store.arrays.values())
    other[1].weight.val[...] = 0.0
    other[1].running_var.val[0] = 6.0
    assert net[1].weight.val.any() and net[1].running_var.val[0] == 5.0
    child = copied(net[1])
    assert child.weight.path == "1.weight" and child.store is not net.store
    assert np.array_equal(child.weight.val, net[1].weight.val)
    with other.store.lock:
        assert repr(other) == repr(net)


def test_a_copied_network_trains_apart():
    net = Small(seed=1)
    x, y = np.ones((2, 4), np.float32), np.array([0, 1], np.int32)
    options: Any = {"loss": CrossEntropy, "optimizer": Adam(lr=0.1), "batch": 2}
    program = noeira.compile(net, target="reference", **options)
    program.step(x, y)
    twin = copy.deepcopy(net)
    other = noeira.compile(twin, target="reference", **options)
    assert program.step(x, y) == other.step(x, y)
    before = net[0].weight.val.copy()
    other.step(x, y)
    assert np.array_equal(net[0].weight.val, before)
    assert not np.array_equal(twin[0].weight.val, before)


def test_a_shallow_copy_is_another_name_for_the_same_memory():
    net = Small()
    other = copy.copy(net)
    assert other.store is net.store and other[0] is net[0]
    other[1].weight.val[...] = 2.0
    assert (net[1].weight.val == 2.0).all()


def test_states_of_an_instance():
    net = Sequential[Filter[3, 8, 1], Filter[8, 2, 1]]()
    assert (net[1].running_var.val == 1).all() and net[1].running_var.val.shape == (2,)
    net[1].running_var.val[0] = 5.0
    assert net.buffer("1.running_var").val[0] == 5.0
    assert (net[0].gamma.val == 1).all()
    assert net[0].count.val.dtype == np.int64
    assert repr(net[0].count) == "<BufferTensor 0.count []>"


def test_a_module_without_parameters_has_an_instance_too():
    assert repr(ReLU()) == "<ReLU: (*) -> (*), 0 parameters>"
