"""PyTorch in: FX graphs of ATen ops become our graph; random ops become explicit; source lines are kept."""
