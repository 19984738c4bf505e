"""What to fuse: candidates, legality, cost, partition, schedule."""
