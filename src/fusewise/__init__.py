"""Fusewise: a kernel-fusion compiler for PyTorch that knows when not to fuse."""
__version__ = "0.1.0"
