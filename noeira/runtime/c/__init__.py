"""Units of C: the compiler, and shared libraries called through ctypes."""
