"""CUDA without a GPU: the same source compiled by a C++ compiler, its kernels run and checked."""
