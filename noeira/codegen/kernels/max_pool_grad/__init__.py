"""The kernel `max_pool_grad`."""
