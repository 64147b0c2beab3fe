"""The kernels of 3x3 convolutions by Winograd's short algorithms."""
