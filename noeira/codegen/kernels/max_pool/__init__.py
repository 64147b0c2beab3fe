"""The kernel `max_pool`."""
