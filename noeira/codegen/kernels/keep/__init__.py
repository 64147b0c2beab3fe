"""The kernel `keep`."""
