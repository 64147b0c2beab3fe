"""Primitives: layers that emit nodes themselves, one file a family."""
