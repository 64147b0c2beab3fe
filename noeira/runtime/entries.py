"""The entries of a program: built when they are first needed, given the memory of their states."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

from noeira.errors import NoeiraError
from noeira.habits import refuse_attribute
from noeira.ir.entry import EVALUATE, GRADIENTS, STEP, STEPS
from noeira.ir.initial import begin_state
from noeira.ir.states import EMA, EPOCH_STEPS, PARAMS, is_of_program
from noeira.runtime.store import Store, aligned_zeros

if TYPE_CHECKING:
    from typing import Self

    import numpy as np

    from noeira.ir.entry import Entry, Purpose
    from noeira.runtime.built_unit import BuiltUnit
    from noeira.runtime.entry_point import EntryPoint
    from noeira.runtime.resident import BuiltData, EvaluationData, TrainingData

# Builds the entries of resident data sets, given the number of samples of each.
BuildResident: TypeAlias = "Callable[[Mapping[Purpose, int]], dict[Purpose, BuiltData]]"

# What makes a program have an entry.
ADVICE = {
    STEP: "compile it with loss=… and optimizer=…",
    GRADIENTS: "compile it with loss=…",
    STEPS: "call load(x, y) first",
    EVALUATE: "call load(evaluation=(x, y)) first",
}
# Why no step can be made.
EPOCHS_UNKNOWN = (
    "the schedule counts epochs: load(x, y) says how many steps one has; for batches of your own "
    "write program.epoch_steps = …"
)
# Characters of a network's type in messages.
LONGEST_TITLE = 60


class Entries:
    """The entries of the program `name` of a module instance, over its store.

    build_entries: gives those that need no data; build_resident: those over data. seed: what the
    program's own states begin with. blocked: why no step can be made now.
    """

    def __init__(
        self,
        name: str,
        store: Store,
        build_entries: Callable[[], BuiltUnit],
        build_resident: BuildResident,
        module: Any,
        seed: int,
    ) -> None:
        self.name, self.store, self.module, self.seed = name, store, module, seed
        self.build_entries, self.build_resident = build_entries, build_resident
        self.own_states: dict[str, np.ndarray] = {}
        self.units: list[BuiltUnit] = []
        self.entries: dict[str, EntryPoint] = {}
        self.declared: dict[str, Entry] = {}
        self.training: TrainingData | None = None
        self.evaluation: EvaluationData | None = None
        self.blocked = ""
        self.ready = self.closed = False

    # Type checkers know the attributes that a program has, and no others.
    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Raises AttributeError that says what to write instead."""
            refuse_attribute(self, "program", name)

    def __call__(self, *given: Any) -> NoReturn:
        """Raises NoeiraError that says what to write instead."""
        raise NoeiraError("a program is not called: write program.forward(x)")

    def have(self, base: BuiltUnit) -> None:
        """Have the entries of this unit, and those of the data that are loaded."""
        loaded = (self.training, self.evaluation)
        self.units = [base, *(data.unit for data in loaded if data is not None)]
        self.entries = {name: e for unit in self.units for name, e in unit.entries.items()}
        self.declared = {entry.name: entry for unit in self.units for entry in unit.declared}

    def prepare(self) -> Self:
        """Build the entries that need no data set, if that has not been done."""
        if not self.ready:
            unit = self.build_entries()
            self.connect_all(unit)
            self.have(unit)
            self.ready = True
        return self

    def connect_all(self, unit: BuiltUnit) -> None:
        """Give the entries of a unit the memory of their states."""
        for entry in unit.entries.values():
            self.connect(entry)

    def connect(self, entry: EntryPoint) -> None:
        """Give an entry the memory of its states."""
        for state in entry.graph.states:
            name, type = state.value.name, state.value.type
            own = is_of_program(name)
            fresh = name not in (self.own_states if own else self.store.memory)
            if own:
                array = self.own_states.setdefault(name, aligned_zeros(type))
            else:
                array = self.store.array(name, type)
            if fresh:
                graph = entry.graph
                begin_state(graph.states, graph.layouts, state, self.seed, array)
                self.begin(name, array)
            entry.bind_state(name, array, None if own else self.store)

    def begin(self, name: str, array: np.ndarray) -> None:
        """Let a state begin that follows from something else than a seed."""
        if name == EMA:
            array[...] = self.store.current(PARAMS)
        if name == EPOCH_STEPS:
            self.blocked = EPOCHS_UNKNOWN

    def entry(self, name: str) -> EntryPoint:
        """An entry point by name. Raises NoeiraError that says what is missing."""
        found = self.entries.get(name)
        if found is not None:
            return found
        self.check_open()
        if name not in self.prepare().entries:
            advice = ADVICE.get(name, f"it has {', '.join(self.entries)}")
            raise NoeiraError(f"{self.title} has no {name}: {advice}")
        return self.entries[name]

    @property
    def title(self) -> str:
        """What messages call the network: its type as it is written, unless that is long."""
        text = repr(type(self.module))
        return text if len(text) <= LONGEST_TITLE else f"{self.name}[…]"

    @property
    def plans(self) -> dict[str, Any]:
        """The plan (or, for the reference, the graph) of every entry."""
        return {name: entry.runs() for name, entry in self.entries.items()}

    @property
    def source(self) -> str:
        """The generated source of every unit."""
        return "\n".join(dict.fromkeys(unit.source for unit in self.units))

    def close(self) -> None:
        """Let go of the program's memory; the parameters stay with the module instance."""
        self.closed = True
        self.entries, self.declared, self.own_states, self.units = {}, {}, {}, []
        self.training = self.evaluation = None
        self.store.settle()
        self.build_entries = self.build_resident = self.gone

    def gone(self, *given: object) -> NoReturn:
        """What building gives after `close`."""
        raise NoeiraError(f"the program {self.name} is closed")

    def check_open(self) -> None:
        """Raises NoeiraError after `close`."""
        if self.closed:
            self.gone()

    def __reduce__(self) -> NoReturn:
        raise NoeiraError(
            f"the program {self.name} cannot be pickled or copied: pickle or copy program.module "
            "and compile that, or write program.save(path), to go on training elsewhere"
        )
