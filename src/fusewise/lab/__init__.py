"""Experiments that measure where fusion stops paying."""
