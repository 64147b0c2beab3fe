"""The kernel `map`."""
