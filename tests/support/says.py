"""How a test says what an expression raises."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from noeira.errors import CompositionError


def says(make: Callable[[], Any], message: str, kind: type[Exception] = CompositionError) -> None:
    """The whole message of an error."""
    with pytest.raises(kind) as found:
        make()
    assert str(found.value) == message
    assert type(found.value) is kind
