"""The kernel `cross_entropy`."""
