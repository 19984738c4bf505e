"""Proof of equality: a function as Fusewise runs it against eager PyTorch and against fp64."""
