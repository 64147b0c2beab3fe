"""The kernel `pad_columns`."""
