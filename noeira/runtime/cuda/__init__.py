"""CUDA on a GPU: NVIDIA's compilers, and pycuda."""
