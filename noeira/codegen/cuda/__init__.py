"""CUDA: how kernels are cut for GPUs, and units of them."""
