"""Timers, floors, contenders and the bench: what a program costs on this machine, and what it must cost."""
