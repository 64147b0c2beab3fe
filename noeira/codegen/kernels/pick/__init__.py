"""The kernel `pick`."""
