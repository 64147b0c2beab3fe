"""The kernel `concat`."""
