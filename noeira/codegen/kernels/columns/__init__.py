"""The kernel `columns`."""
