"""The kernel `convolution_weight`."""
