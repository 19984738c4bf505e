"""Kernel IR -> source text."""
