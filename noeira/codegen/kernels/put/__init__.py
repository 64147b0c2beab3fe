"""The kernel `put`."""
