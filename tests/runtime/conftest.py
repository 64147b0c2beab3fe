"""Fixtures of several files of this folder."""

from built_units import compiler
from device_programs import device, on_device

__all__ = ["compiler", "device", "on_device"]
