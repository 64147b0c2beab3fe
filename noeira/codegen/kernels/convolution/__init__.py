"""The kernel `convolution`."""
