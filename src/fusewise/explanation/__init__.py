"""Explains what Fusewise makes of a function, for this machine or for a GPU that is not here; nothing is run."""

from fusewise.explanation.run import Explained, Progress, default_device, explain, explain_compiled, stages_of

__all__ = ["Explained", "Progress", "default_device", "explain", "explain_compiled", "stages_of"]
