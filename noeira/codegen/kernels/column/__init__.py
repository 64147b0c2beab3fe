"""The kernel `column`."""
