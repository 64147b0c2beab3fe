"""The kernel `sum`."""
