"""Source text to programs: memory, compilers, the cache, and the programs themselves."""
