"""The kernel `channel_sums`."""
