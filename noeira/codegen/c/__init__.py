"""C: how kernels are cut for vector units, and units of them."""
