"""The kernel `take`."""
