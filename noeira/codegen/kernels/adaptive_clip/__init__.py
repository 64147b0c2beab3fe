"""The kernel `adaptive_clip`."""
