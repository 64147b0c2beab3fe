"""The kernel `row_sum`."""
