"""The kernel `softmax`."""
