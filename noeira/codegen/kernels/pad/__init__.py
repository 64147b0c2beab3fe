"""The kernel `pad`."""
