"""PyTorch in: Dynamo and AOTAutograd graphs become our graph."""
