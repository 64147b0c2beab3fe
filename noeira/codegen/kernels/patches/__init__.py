"""The kernel `patches`: convolutions as products of matrices of patches."""
