"""The kernel `schedule`."""
