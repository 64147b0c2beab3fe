"""The kernel `row_norm_sums`."""
