"""The kernel `cross_entropy_grad_grad`."""
