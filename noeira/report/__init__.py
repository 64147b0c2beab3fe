"""Reports on a network: its launches, what could be fused, its size, pictures of its graphs."""
