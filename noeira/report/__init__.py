"""Reports on a network: its launches, what could be fused, its size, its graphs as pictures and as JSON."""
