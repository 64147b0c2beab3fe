"""The kernel `mse`."""
