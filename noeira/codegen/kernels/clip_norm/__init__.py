"""The kernel `clip_norm`."""
