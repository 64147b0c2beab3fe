"""Plans to source text: kernels from templates, one unit a program."""
