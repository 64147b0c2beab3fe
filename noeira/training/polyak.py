"""Target networks: one that follows another slowly, by one kernel over all parameters."""

from __future__ import annotations

from itertools import zip_longest
from typing import TYPE_CHECKING, Any, NoReturn

from noeira.compiler import build
from noeira.errors import CompositionError, NoeiraError, OptionError
from noeira.ir.builder import Builder
from noeira.ir.entry import Entry
from noeira.ir.graph import ROOT, ComputeGraph, Origin, Value
from noeira.ir.numbers import finite_number
from noeira.ir.states import PARAMS
from noeira.ir.verify import verify
from noeira.job import dump_of
from noeira.nn.core.init import Zero
from noeira.nn.core.module import Module
from noeira.nn.core.parameters import joined
from noeira.nn.core.states import network_states
from noeira.runtime.targets import target_called

if TYPE_CHECKING:
    from noeira.ir.plan import Plan

# What the name of the entry ends in, and what those of the online network's states begin with.
POLYAK, ONLINE = "polyak", "online."


class Polyak:
    """What lets a target network follow an online one, as critics do in reinforcement learning
    (Lillicrap et al. 2016): `Polyak(slow, fast)()` is one step of

        p = tau · p_online + (1 − tau) · p

    for each parameter p of the target network, by one kernel over all of them. Its buffers, such as
    running statistics, become what those of the online network are: averages of them would lag
    behind the parameters that they belong to. A call waits for calls of both networks' programs.

    target_net, online_net: instances of one type, `fast = Net(); slow = copy.deepcopy(fast)`. tau:
    greater than 0 and at most 1. target: as of `noeira.compile`; where the programs of both run on
    it too, nothing is copied through the host. Raises CompositionError or OptionError.
    """

    def __init__(
        self, target_net: Module, online_net: Module, *, tau: float = 0.005, target: str = "cpu"
    ) -> None:
        kind = common_type(target_net, online_net)
        rate = finite_number(tau)
        if rate is None or not 0 < rate <= 1:
            raise OptionError(f"Polyak: tau must be greater than 0 and at most 1, not {tau!r}")
        self.target_net, self.online_net = target_net, online_net
        toolchain = target_called(target).open()
        graph = polyak_graph(kind, target_net.store.dtype, rate)
        entry = Entry(dump_of(graph), 1, "nothing")
        self.unit = build(kind.__name__, [entry], toolchain)
        self.tau, self.target = rate, toolchain.name
        (self.entry,) = self.unit.entries.values()
        for prefix, net in (("", target_net), (ONLINE, online_net)):
            for state in network_states(kind, Zero(), net.store.dtype).states:
                stored = state.value.name
                array = net.store.array(stored, state.value.type)
                self.entry.bind_state(f"{prefix}{stored}", array, net.store, stored)

    def __setattr__(self, name: str, value: Any) -> None:
        """Raises NoeiraError for what has been compiled in."""
        if "entry" in self.__dict__:
            raise NoeiraError(f"{name} of a Polyak cannot be set: make another")
        super().__setattr__(name, value)

    def __reduce__(self) -> NoReturn:
        raise NoeiraError(
            "a Polyak cannot be pickled or copied: pickle or copy its networks, and make another"
        )

    def __call__(self) -> None:
        """Let the target network follow by one step."""
        # In one order, whichever network is the target: two that follow each other cannot wait for
        # each other.
        first, second = sorted((self.target_net.store, self.online_net.store), key=id)
        with first.lock, second.lock:
            self.target_net.store.changes += 1
            self.entry.run()

    @property
    def plan(self) -> Plan | ComputeGraph:
        """What a call does: its plan, of the reference the graph."""
        return self.entry.runs()

    @property
    def source(self) -> str:
        """The generated source."""
        return self.unit.source

    def __repr__(self) -> str:
        return f"<Polyak of {type(self.target_net)!r} on {self.target}, tau {self.tau!r}>"


def polyak_graph(kind: type[Module], dtype: str, tau: float) -> ComputeGraph:
    """The states of a network type and `online.` ones of another of it, which the first follow:

    %params.next = moving_average(%params, %online.params) {decay = 1 − tau, …}
    update %params = %params.next
    update %buffers = %online.buffers
    """
    own = network_states(kind, Zero(), dtype)
    builder = Builder(f"{kind.__name__.lower()}.{POLYAK}", list(own.layouts))
    types = {state.value.name: state.value.type for state in own.states}
    followers = {name: builder.state(name, type) for name, type in types.items()}
    online = {name: builder.state(f"{ONLINE}{name}", type) for name, type in types.items()}
    with builder.at(Origin(ROOT, f"target network, tau {tau!r}", POLYAK)):
        for name, state in followers.items():
            builder.update(state, followed(builder, state, online[name], tau))
    return verify(builder.done(()), after=POLYAK)


def followed(builder: Builder, state: Value, online: Value, tau: float) -> Value:
    """The next value of a state of the target network."""
    if state.name != PARAMS:
        return online
    attrs = {"decay": 1 - tau, "from_first": False}
    return builder.emit("moving_average", state, online, hint=f"{state.name}.next", **attrs)


def common_type(target_net: Any, online_net: Any) -> type[Module]:
    """The type of both networks. Raises CompositionError if they have none, or are one; OptionError
    for other dtypes or no parameters.
    """
    for name, net in (("target", target_net), ("online", online_net)):
        if not isinstance(net, Module):
            raise CompositionError(
                f"Polyak: the {name} network must be an instance, such as Net(), whose memory it "
                f"works on, not {net!r}"
            )
        if net.path:
            raise CompositionError(
                f"Polyak takes whole networks; the {name} network is a part, at {net.path}"
            )
    kind, other = type(target_net), type(online_net)
    if kind is not other:
        path, *there = first_difference("", kind, other)
        own, others = ("nothing" if one is None else repr(one) for one in there)
        place = f" at {path}" if path else ""
        raise CompositionError(
            f"Polyak takes two networks of one type; these differ{place}: the target network has "
            f"{own}, the online network {others}"
        )
    if target_net.store is online_net.store:
        raise CompositionError(
            "Polyak: the target network is the online network; write copy.deepcopy(net) for "
            "another with the same parameters"
        )
    dtypes = target_net.store.dtype, online_net.store.dtype
    if dtypes[0] != dtypes[1]:
        raise OptionError(
            f"Polyak: the target network is in {dtypes[0]} and the online network in {dtypes[1]}: "
            "both must have one dtype"
        )
    if not kind.parameters():
        raise OptionError(f"Polyak: {kind!r} has no parameters, so there is nothing to follow")
    return kind


def first_difference(
    path: str, own: type[Module], other: type[Module]
) -> tuple[str, type[Module] | None, type[Module] | None]:
    """Where two different types differ first, and what each has there, None for nothing."""
    if not (own.inside and other.inside):
        return path, own, other
    for one, two in zip_longest(own.inside, other.inside):
        name, mine = one or (two[0], None)
        other_name, theirs = two or (name, None)
        if name != other_name:
            break
        if mine is None or theirs is None:
            return joined(path, name), mine, theirs
        if mine is not theirs:
            return first_difference(joined(path, name), mine, theirs)
    return path, own, other
