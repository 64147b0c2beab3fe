"""The kernel `soft_cross_entropy`."""
