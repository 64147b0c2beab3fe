"""The kernel `shuffle`."""
