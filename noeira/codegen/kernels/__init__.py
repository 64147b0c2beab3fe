"""The kernels, a folder each: how they are cut, and their templates."""
