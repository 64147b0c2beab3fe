"""The kernel `transpose`."""
