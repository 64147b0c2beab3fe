"""The kernel `gemm`."""
