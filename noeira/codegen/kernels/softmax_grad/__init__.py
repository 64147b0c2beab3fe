"""The kernel `softmax_grad`."""
