"""The kernel `slice`."""
