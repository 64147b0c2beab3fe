"""Source to binary, in any language: compilers found, commands run, the cache."""
