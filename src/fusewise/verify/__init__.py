"""Proof of equality."""
