"""The kernel `top_k`."""
