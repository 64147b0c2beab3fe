"""The kernel `channel_statistics`."""
