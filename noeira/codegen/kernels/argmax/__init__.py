"""The kernel `argmax`."""
