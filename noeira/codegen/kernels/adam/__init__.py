"""The kernel `adam`."""
