"""The kernel `transposed_convolution`."""
