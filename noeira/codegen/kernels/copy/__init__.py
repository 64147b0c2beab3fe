"""The kernel `copy`."""
