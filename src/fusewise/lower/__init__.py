"""Region + schedule -> kernel IR: loops, loads, reductions, stores, masks, order of execution."""
