"""Values that users write for an option, such as optimizers: how they are made, and what is said of
options that they do not have.
"""

from __future__ import annotations

import difflib
from dataclasses import MISSING, dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar

from noeira.errors import OptionError
from noeira.habits import instead
from noeira.ir.bounded import Bounded
from noeira.ir.types import DTYPES

if TYPE_CHECKING:
    from typing import Self


class Checked:
    """The parent of dataclasses that say themselves what is wrong with their options' names.

    needs: how one is written that cannot do without an option: `ClipNorm(1.0)`. only: what else is
    said where an option is given twice.
    """

    needs: ClassVar[str] = ""
    only: ClassVar[str] = ""

    def __new__(cls, *args: Any, **options: Any) -> Self:
        """Raises OptionError for an option that there is not, that is given twice, or missing."""
        own = fields(cls)  # type: ignore[arg-type]
        names = [field.name for field in own]
        if len(args) > len(names):
            raise OptionError(
                f"{cls.__name__}: {len(args)} options are too many; it has {', '.join(names)}"
            )
        for name in options:
            if name not in names:
                raise unknown_option(cls, name, names)
            if name in names[: len(args)]:
                hint = f"; {cls.only}" if cls.only else ""
                raise OptionError(
                    f"{cls.__name__}: {name} is given twice, by its place and by its name{hint}"
                )
        for field in own[len(args) :]:
            if field.default is MISSING and field.name not in options:
                raise OptionError(f"{cls.__name__} needs {field.name}: write {cls.needs}")
        return super().__new__(cls)

    def __reduce__(self) -> tuple[type[Self], tuple[Any, ...]]:
        own = fields(self)  # type: ignore[arg-type]
        return type(self), tuple(getattr(self, field.name) for field in own)


@dataclass(frozen=True)
class OptionValue(Checked, Bounded):
    """The parent of values that are attributes of an operation.

    op: the operation that does what it says.
    """

    op: ClassVar[str] = ""

    def options(self) -> dict[str, Any]:
        """The attributes of the operation."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def check_fits(self, dtype: str) -> None:
        """Raises OptionError for a number that is too large for the dtype of the network."""
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, float) and not DTYPES[dtype].fits(value):
                raise OptionError(
                    f"{self.label}: {field.name} is {value!r}, which does not fit in {dtype}, the "
                    "dtype of the network"
                )


def unknown_option(cls: type, name: str, known: list[str]) -> OptionError:
    """The error for an option that there is not; `learning_rate` is near to `lr`."""
    if advice := instead(cls.__name__, name):
        return OptionError(f"{cls.__name__} has no option {name}{advice}")
    initials = "".join(word[:1] for word in name.lower().split("_"))
    near = [initials] if initials in known else difflib.get_close_matches(name.lower(), known, n=2)
    hint = f"; did you mean {' or '.join(n for n in known if n in near)}?" if near else ""
    listed = ", ".join(known) or "none"
    return OptionError(f"{cls.__name__} has no option {name}; it has {listed}{hint}")
