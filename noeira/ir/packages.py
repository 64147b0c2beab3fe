"""Packages whose modules find themselves: ops and passes, of which no list is kept."""

from __future__ import annotations

import importlib
import pkgutil


def import_all(package: str) -> None:
    """Import every module of a package, so that the classes in them are known."""
    for found in pkgutil.iter_modules(importlib.import_module(package).__path__):
        importlib.import_module(f"{package}.{found.name}")
