"""What reports share: each is one JSON object, too."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from typing import Any


class Report(ABC):
    """The parent of reports: `str` gives the text that people read."""

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """The report as an object of plain values."""

    def json(self) -> str:
        """`to_json` as text."""
        return json.dumps(self.to_json(), indent=1)
