"""Compile, cache, load, launch, fall back."""
