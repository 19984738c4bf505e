"""The catalogue of fusion patterns: plain PyTorch programs with their sizes, bounds and peers."""
