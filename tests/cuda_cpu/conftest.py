"""Fixtures of several files of this folder."""

from emulated_units import checked, fast, folder, unit

__all__ = ["checked", "fast", "folder", "unit"]
