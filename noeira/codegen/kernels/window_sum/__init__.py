"""The kernel `window_sum`."""
